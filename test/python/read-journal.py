import json, sys
text = open(sys.argv[1], encoding='utf-8', newline='').read()
# splitlines breaks at every separator that Unicode knows, so it is the strictest reader.
for line in text.splitlines():
    event = json.loads(line)
    metadata = event.get('metadata', {})
    print(json.dumps([event['seq'], event['type'], event['asset_key'], metadata.get('rows'), metadata.get('text')]))
