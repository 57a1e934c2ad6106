"""``tl.federated``: apps of Flower whose clients train on views, and what protects the updates.

    client_app   open the view → train → close it, for each request: a client that was not chosen
                 has no handle, and makes no request
    server_app   Flower's workflow of rounds, with a strategy of Flower's

``secure`` names protections of Flower's own, for both apps; nothing here is cryptography:

    "secagg+"    SecAggPlusWorkflow, secaggplus_mod: the server learns the weighted mean alone
    "dp"         DifferentialPrivacyClientSideFixedClipping, fixedclipping_mod: clients cut their
                 updates to a norm, and the mean has noise
    "local-dp"   LocalDpMod: a client adds the noise itself
"""

from tensorlake.workloads.federated.client import client_app
from tensorlake.workloads.federated.server import server_app

__all__ = ["client_app", "server_app"]
