-- Queries for the tables of `assetlog forward ddl clickhouse`.

-- The last state of each asset
SELECT deployment, asset_key, materialized, partition, metadata, observed
FROM assets.latest ORDER BY deployment, asset_key;

-- Checks that fail now
SELECT deployment, asset_key, check.name, check.severity, check.time
FROM assets.latest ARRAY JOIN checks AS check
WHERE NOT check.passed ORDER BY check.time;

-- The delay of each source in seconds (offline, or a wrong clock)
SELECT source, count() AS events, avg(lag) AS mean, max(lag) AS longest
FROM (SELECT source, dateDiff('second', event_time, time) AS lag FROM assets.events FINAL)
WHERE lag IS NOT NULL GROUP BY source ORDER BY longest DESC;

-- The events of a day
SELECT time, deployment, asset_key, type, partition, JSONExtractRaw(metadata, 'rows') AS rows
FROM assets.events FINAL
WHERE time >= '2026-11-20' AND time < '2026-11-21' ORDER BY time, seq;

-- The events of a source, also through hubs
WITH '01a1fb95-ce62-7e59-9364-610bf5613940' AS device
SELECT seq, time, type, asset_key FROM assets.events FINAL
WHERE source = device OR JSONExtractString(if(origin = '', `from`, origin), 1) = device ORDER BY time, seq;
