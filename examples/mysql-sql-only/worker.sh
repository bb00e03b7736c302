#!/bin/sh
# A worker of sh, curl and jq: fetch a job, do it, acknowledge it.
#
#   sh worker.sh [URL of outrider]
set -eu
server=${1:-http://127.0.0.1:8080}

confirm() { # ORDER EMAIL: what this worker is there for
  echo "order $1: mail to $2"
}

post() { # VERB BODY
  curl -fsS "$server/ojs/v1/workers/$1" -H 'Content-Type: application/json' -d "$2"
}

while true; do
  # Wait up to 10 s for a job. If we die, it is another's after a minute.
  jobs=$(post fetch '{"queues":["default"],"worker_id":"worker.sh","block_ms":10000,"visibility_timeout_ms":60000}')
  printf '%s' "$jobs" | jq -c '.jobs[]' | while read -r job; do
    member() { printf '%s' "$job" | jq -cr "$1"; }
    if confirm "$(member '.args[0]')" "$(member '.args[1]')"; then
      post ack "$(member '{job_id: .id, lease_token, result: {mailed: .args[1]}}')" >/dev/null
    else # it is tried again, as its retry policy says
      post nack "$(member '{job_id: .id, lease_token, error: {type: "MailError", message: "no mail was sent"}}')" >/dev/null
    fi
  done
done
