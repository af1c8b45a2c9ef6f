CREATE TABLE IF NOT EXISTS events (
  id uuid PRIMARY KEY, deployment text, seq bigint NOT NULL, time timestamptz NOT NULL,
  type text NOT NULL, asset_key text[] NOT NULL,
  partition text, check_name text, passed boolean, severity text, description text,
  data_version text, metadata json, event_time timestamptz, idempotency_key text
);
CREATE TEMPORARY TABLE lines (line json);
\copy lines FROM PROGRAM 'assetlog events --data assetlog-data' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
INSERT INTO events
SELECT (line->>'id')::uuid, line->>'deployment', (line->>'seq')::bigint,
  (line->>'time')::timestamptz, line->>'type',
  ARRAY(SELECT json_array_elements_text(line->'asset_key')),
  line->>'partition', line->>'check_name', (line->>'passed')::boolean, line->>'severity',
  line->>'description', line->'tags'->>'data_version', line->'metadata',
  (line->>'event_time')::timestamptz, line->>'idempotency_key'
FROM lines
ON CONFLICT (id) DO NOTHING;
