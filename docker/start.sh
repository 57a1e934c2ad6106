#!/bin/sh
# Starts the one server of a container. What it serves, and how, comes from the environment:
#   TENSORLAKE_URL           a dataset, or a folder or bucket of datasets; /lake when nothing says otherwise
#   TENSORLAKE_SERVE_…       any option of `tensorlake serve`; docs/reference/rest.md lists them
#   TENSORLAKE_SIGNING_KEY   the same for all replicas of a lake, so that each reads the views of the others
# Without a token file (TENSORLAKE_SERVE_AUTH) everybody who reaches the port may read, and nobody writes.
set -eu

: "${TENSORLAKE_SERVE_HOST:=0.0.0.0}" "${TENSORLAKE_SERVE_PORT:=8300}"
if [ -z "${TENSORLAKE_SERVE_AUTH:-}" ]; then
  : "${TENSORLAKE_SERVE_PUBLIC_READ:=true}"
  export TENSORLAKE_SERVE_PUBLIC_READ
fi
export TENSORLAKE_SERVE_HOST TENSORLAKE_SERVE_PORT

# exec: the server is the container's own process, so that the signal that stops it reaches it, and it drains.
exec tensorlake serve "${TENSORLAKE_URL:-/lake}" "$@"
