import json, re, sqlite3, sys
def rows(file, query):
    return sqlite3.connect(f"file:{sys.argv[1]}/{file}?mode=ro", uri=True).execute(query)
cursors = [text for (body,) in rows("schedules/schedules.db", "SELECT instigator_body FROM instigators")
           for text in re.findall(r'"cursor": "\[\[(\d+)', body)]
seqs = [int(seq) for (event,) in rows("history/runs/index.db", "SELECT event FROM event_logs ORDER BY id")
        for seq in re.findall(r'IntMetadataEntryData", "value": (\d+)}, "label": "assetlog/seq"', event)]
failures = [body for (body,) in rows("schedules/schedules.db", "SELECT tick_body FROM job_ticks WHERE status = 'FAILURE'")]
print(json.dumps({"cursor": int((cursors or ["0"])[0]), "seqs": seqs, "failures": failures}))
