# Sends the events of a lost ingester from $subject of NATS to $hub, with $token if the hub needs one.
set -eu
auth=(); [ -z "${token:-}" ] || auth=(-H "Service-Cloud-Api-Token: $token")
nats sub "$subject" --stream ASSETLOG --all --terminate-at-end --raw > lines.jsonl

# Split the lines into parts of at most 4 MiB without a gap in seq.
LC_ALL=C awk -F '[:,]' '
  $2 != last + 1 || bytes > 3000000 { part += 1; bytes = 0 }
  { last = $2; bytes += length($0) + 1; print > sprintf("part-%06d", part) }' lines.jsonl
next=1
for part in part-*; do
  first=$(head -n 1 "$part" | jq .seq)
  lost=(); [ "$first" = "$next" ] || lost=(-H "Assetlog-Lost: $next-$((first - 1))")
  curl -fsS -T "$part" -H 'Content-Type: application/x-ndjson' "${auth[@]}" "${lost[@]}" "$hub/forward/${subject##*.}/$first"
  next=$(($(tail -n 1 "$part" | jq .seq) + 1))
done
