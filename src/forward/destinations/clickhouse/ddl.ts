/** The table that a ClickHouse needs, and a view of it. `assetlog forward ddl clickhouse` prints them. */

/** @param isReplicated whether ClickHouse Keeper copies the tables to several servers */
export function clickhouseDdl(isReplicated: boolean): string {
  const [each, engine, settings] = isReplicated
    ? [ON_EACH, REPLICATED_ENGINE, REPLICATED]
    : ['', 'ReplacingMergeTree', SINGLE];
  return BEGIN + each + TABLE + engine + ORDER + settings + VIEW;
}

const BEGIN =
  '-- For ClickHouse 24.8 or later. To have other names, replace assets.events and assets.latest everywhere.';

const TABLE = `

CREATE DATABASE IF NOT EXISTS assets;

CREATE TABLE IF NOT EXISTS assets.events
(
  source LowCardinality(String),            -- the id of the journal that sent the event
  deployment LowCardinality(String),        -- _ for a service without deployments
  seq UInt64,                               -- counts the events of a source, without gaps but for dead letters
  id UUID,
  time DateTime64(3, 'UTC'),                -- when the source recorded it
  type LowCardinality(String),
  asset_key Array(String),
  partition Nullable(String),
  check_name Nullable(String),
  passed Nullable(Bool),
  severity LowCardinality(Nullable(String)),
  description Nullable(String),
  tags Map(String, String),
  metadata String,                          -- JSON as it was sent, digit for digit: JSONExtractInt(metadata, 'rows')
  event_time Nullable(DateTime64(9, 'UTC')),  -- when it happened, as the client said: from 1677 to 2262
  idempotency_key Nullable(String),
  origin String DEFAULT '',                 -- of an event that came through hubs: ["<first source>",<seq there>], if that is not "from"
  by String DEFAULT '',                     -- the name of the token of its report, with "recordTokens"
  "from" String,                            -- of an event that came through a hub: ["<source at the hub>",<seq there>]
  recorded Nullable(DateTime64(3, 'UTC')),  -- when the first source recorded it
  -- A start and each failure ask for the last event of a source. This reads a row of each part in place of the table.
  PROJECTION position (SELECT source, max(seq), argMax(id, seq) GROUP BY source)
)
-- Rows with the same sorting key become one at a merge, and in SELECT … FINAL at once. So an event that was sent twice (after the
-- cursor of a service was lost, or to a server that lags) counts once.
ENGINE = `;

const ORDER = `
-- A request has events of one month, so it becomes one part: it is there as a whole or not at all. To drop old months:
-- ALTER TABLE assets.events DROP PARTITION 202611, or TTL toDateTime(time) + INTERVAL 1 YEAR.
PARTITION BY toYYYYMM(time)
-- What is asked for most is the history of an asset. The id makes an event its own row.
ORDER BY (deployment, asset_key, id)
SETTINGS
`;

const VIEW = `,
  -- A merge that joins rows makes the projection anew, as it has to fit the rows.
  deduplicate_merge_projection_mode = 'rebuild';

-- For a table of version 0.3 or before.
ALTER TABLE assets.events ADD COLUMN IF NOT EXISTS origin String DEFAULT '' AFTER idempotency_key;
ALTER TABLE assets.events ADD COLUMN IF NOT EXISTS by String DEFAULT '' AFTER origin;

-- The last state of each asset. It needs no FINAL: a row that is there twice changes nothing in it.
CREATE VIEW IF NOT EXISTS assets.latest AS
SELECT
  deployment,
  asset_key,
  maxOrNullIf(last.1, type = 'AssetMaterialization') AS materialized,
  anyIf(last.2, type = 'AssetMaterialization') AS partition,
  anyIf(last.3, type = 'AssetMaterialization') AS data_version,
  anyIf(last.4, type = 'AssetMaterialization') AS metadata,
  maxOrNullIf(last.1, type = 'AssetObservation') AS observed,
  CAST(
    groupArrayIf((assumeNotNull(check_name), last.5, last.6, last.1), type = 'AssetCheckEvaluation'),
    'Array(Tuple(name String, passed Bool, severity String, time DateTime64(3, ''UTC'')))'
  ) AS checks
FROM
(
  SELECT
    deployment, asset_key, type, check_name,
    argMax((time, partition, tags['data_version'], metadata, passed, severity), (time, seq)) AS last
  FROM assets.events
  GROUP BY deployment, asset_key, type, check_name
)
GROUP BY deployment, asset_key;
`;

const ON_EACH = `
-- Run it on each server. Each needs ClickHouse Keeper, and the macros shard (the same on all of them) and replica (its own).`;

/** Has an explicit path, since the default path contains a UUID that differs on each server. */
const REPLICATED_ENGINE = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/assets.events', '{replica}')";

const SINGLE = `\
  -- A request that is repeated, since its answer was lost, has the same token and is stored once. Without this setting a table that is
  -- not replicated knows no tokens. It counts requests: 10000 are nearly three hours at one a second.
  non_replicated_deduplication_window = 10000`;

const REPLICATED = `\
  -- A request that is repeated, since its answer was lost, has the same token and is stored once. These are the last requests, and the
  -- seconds, that the servers know tokens for; the second is a week.
  replicated_deduplication_window = 10000,
  replicated_deduplication_window_seconds = 604800`;
