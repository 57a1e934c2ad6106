#!/bin/sh
# Starts the server of a container, configured by environment variables:
#   TENSORLAKE_URL           a dataset, or a folder or bucket of datasets; default /lake
#   TENSORLAKE_SERVE_…       any option of `tensorlake serve`; docs/reference/rest.md lists them
#   TENSORLAKE_SIGNING_KEY   a key shared by all replicas of a lake, so that each accepts the views of the others
# Without a token file (TENSORLAKE_SERVE_AUTH), every client that reaches the port can read, and none can write.
set -eu

: "${TENSORLAKE_SERVE_HOST:=0.0.0.0}" "${TENSORLAKE_SERVE_PORT:=8300}"
if [ -z "${TENSORLAKE_SERVE_AUTH:-}" ]; then
  : "${TENSORLAKE_SERVE_PUBLIC_READ:=true}"
  export TENSORLAKE_SERVE_PUBLIC_READ
fi
export TENSORLAKE_SERVE_HOST TENSORLAKE_SERVE_PORT

# exec: the server is the container's own process, so that it receives the stop signal and drains.
exec tensorlake serve "${TENSORLAKE_URL:-/lake}" "$@"
