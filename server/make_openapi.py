"""Write the server's OpenAPI document where the viewer's types are made of it.

``python server/make_openapi.py`` writes viewer/openapi.json, of which ``npm run types`` makes
viewer/src/api/types.ts; ``make api`` runs both. Tests make both again and compare, so that neither
can drift away from what the server answers.
"""

import json
from pathlib import Path
from typing import Any

from tensorlake_server import Settings, create_app

DOCUMENT = Path(__file__).parents[1] / "viewer/openapi.json"


def openapi_text(document: dict[str, Any]) -> str:
    """Write a document as the file has it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(openapi_text(create_app(Settings(url="memory://none")).openapi()), "utf-8")
