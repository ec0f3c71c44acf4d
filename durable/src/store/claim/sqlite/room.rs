//! The room of a claim: shared among queues, bounded by their limits. What `durable.claim` is on Postgres.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::super::{GONE, Wanted};
use crate::model::{ClaimedWorkflow, Micros};
use crate::store::sqlite::{now, served_json};
use crate::store::{Lease, Result};

const PROMOTE: &str = include_str!("../promote.sqlite.sql");
const GROUPS: &str = include_str!("../groups.sqlite.sql");
const HEADS: &str = include_str!("../heads.sqlite.sql");
const CLAIM_DUE: &str = include_str!("../claim_due.sqlite.sql");
const RUNNING: &str = include_str!("../running.sqlite.sql");
const RATE: &str = include_str!("../rate.sqlite.sql");
const PARTITIONS: &str = include_str!("../partitions.sqlite.sql");
const PARTITION_HEADS: &str = include_str!("../partition_heads.sqlite.sql");
const TURN: &str = include_str!("../turn.sqlite.sql");
const NOTE_CLAIMS: &str = include_str!("../note_claims.sqlite.sql");
const FORGET_CLAIMS: &str = include_str!("../forget_claims.sqlite.sql");

/// Partitions that one claim looks at.
const MAX_PARTITIONS: usize = 1_000;

/// One claim, inside its transaction.
pub(super) struct Claim<'a> {
    tx: &'a mut SqliteConnection,
    executor_id: &'a str,
    wanted: &'a Wanted<'a>,
    at: Micros,
}

/// A queue that has work, and its names that do.
struct Line {
    queue: String,
    names: Vec<(String, i32)>,
    limits: Limits,
}

#[derive(Default)]
struct Limits {
    paused: bool,
    concurrency: Option<i64>,
    executor_concurrency: Option<i64>,
    rate: Option<(i64, Micros)>,
    partition_concurrency: Option<i64>,
    partition_executor_concurrency: Option<i64>,
    partition_rate: Option<(i64, Micros)>,
    partition_cursor: String,
}

impl Limits {
    fn of(row: &SqliteRow) -> Result<Self> {
        let rate = |count: &str, window: &str| {
            Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(count)?.zip(row.try_get::<Option<i64>, _>(window)?))
        };
        Ok(Self {
            paused: row.try_get("paused")?,
            concurrency: row.try_get("concurrency")?,
            executor_concurrency: row.try_get("executor_concurrency")?,
            rate: rate("rate", "rate_window")?,
            partition_concurrency: row.try_get("partition_concurrency")?,
            partition_executor_concurrency: row.try_get("partition_executor_concurrency")?,
            partition_rate: rate("partition_rate", "partition_rate_window")?,
            partition_cursor: row.try_get("partition_cursor")?,
        })
    }

    fn by_partition(&self) -> bool {
        self.partition_concurrency.is_some()
            || self.partition_executor_concurrency.is_some()
            || self.partition_rate.is_some()
    }

    /// The longest window of a rate.
    fn window(&self) -> Option<Micros> {
        self.rate.map(|(_, window)| window).max(self.partition_rate.map(|(_, window)| window))
    }
}

/// A workflow by its place in the order of its queue, and its submission.
type Head = (i64, Micros, i64);

impl<'a> Claim<'a> {
    pub(super) fn new(tx: &'a mut SqliteConnection, lease: &'a Lease, wanted: &'a Wanted<'a>) -> Self {
        Self { tx, executor_id: &lease.executor_id, wanted, at: now() }
    }

    /// Claims up to so many.
    pub(super) async fn take(mut self, mut room: i64) -> Result<Vec<ClaimedWorkflow>> {
        sqlx::query(PROMOTE).bind(self.at).execute(&mut *self.tx).await?;
        let mut lines = self.lines().await?;
        let mut claimed = Vec::new();
        let count = i64::try_from(lines.len()).unwrap_or(i64::MAX).max(1);
        lines.rotate_left(usize::try_from(i64::from(self.wanted.turn) % count).unwrap_or(0));
        for pass in 0..2 {
            for (n, line) in lines.iter().enumerate() {
                let left = count - i64::try_from(n).unwrap_or(0);
                let share = if pass == 0 { (room / left).max(1).min(room) } else { room };
                let some = self.take_from(line, share).await?;
                room -= i64::try_from(some.len()).unwrap_or(0);
                claimed.extend(some);
            }
            if room <= 0 || lines.len() == 1 {
                break;
            }
        }
        Ok(claimed)
    }

    async fn lines(&mut self) -> Result<Vec<Line>> {
        // Names always have a JSON text.
        let queues = self.wanted.queues.map(|queues| serde_json::to_string(queues).unwrap_or_default());
        let query = sqlx::query(GROUPS).bind(served_json(self.wanted.served)).bind(queues);
        let mut lines: Vec<Line> = Vec::new();
        for row in query.fetch_all(&mut *self.tx).await? {
            let (queue, name) = (row.try_get::<String, _>("queue")?, (row.try_get("name")?, row.try_get("version")?));
            match lines.last_mut() {
                Some(line) if line.queue == queue => line.names.push(name),
                _ => lines.push(Line { queue, names: vec![name], limits: Limits::of(&row)? }),
            }
        }
        Ok(lines)
    }

    async fn take_from(&mut self, line: &Line, share: i64) -> Result<Vec<ClaimedWorkflow>> {
        let room = if share > 0 && !line.limits.paused { self.room(line, share).await? } else { 0 };
        if room <= 0 {
            return Ok(Vec::new());
        }
        let mut heads = if line.limits.by_partition() {
            let mut heads = self.partition_heads(line, room).await?;
            heads.extend(self.heads(line, room, true).await?);
            heads
        } else {
            self.heads(line, room, false).await?
        };
        heads.sort_unstable();
        heads.truncate(usize::try_from(room).unwrap_or(0));
        if heads.is_empty() {
            return Ok(Vec::new());
        }
        let picked = json(heads.iter().map(|(_, _, submission)| submission));
        let rows = sqlx::query(CLAIM_DUE).bind(&picked).bind(self.executor_id).bind(self.at);
        let rows = rows.fetch_all(&mut *self.tx).await?;
        if let Some(window) = line.limits.window() {
            let query = sqlx::query(FORGET_CLAIMS).bind(&line.queue).bind(self.at.saturating_sub(window));
            query.execute(&mut *self.tx).await?;
            sqlx::query(NOTE_CLAIMS).bind(&line.queue).bind(&picked).bind(self.at).execute(&mut *self.tx).await?;
        }
        let places: HashMap<i64, usize> = heads.iter().enumerate().map(|(n, head)| (head.2, n)).collect();
        let mut claimed = Vec::with_capacity(rows.len());
        for row in &rows {
            let place = places.get(&row.try_get("submission")?).copied().unwrap_or(usize::MAX);
            claimed.push((
                place,
                ClaimedWorkflow {
                    workflow_id: row.try_get::<&str, _>("workflow_id")?.into(),
                    name: row.try_get("name")?,
                    version: row.try_get("version")?,
                    epoch: row.try_get("epoch")?,
                    seed: row.try_get("seed")?,
                    attempt: row.try_get("attempts")?,
                    input: Err(GONE.to_owned()),
                },
            ));
        }
        claimed.sort_by_key(|(place, _)| *place);
        Ok(claimed.into_iter().map(|(_, workflow)| workflow).collect())
    }

    /// What the limits of the whole queue leave.
    async fn room(&mut self, line: &Line, share: i64) -> Result<i64> {
        let limits = &line.limits;
        let mut room = share;
        if limits.concurrency.is_some() || limits.executor_concurrency.is_some() {
            let query = sqlx::query(RUNNING).bind(&line.queue).bind(self.executor_id);
            let row = query.fetch_one(&mut *self.tx).await?;
            room = room.min(left(limits.concurrency, row.try_get("running")?));
            room = room.min(left(limits.executor_concurrency, row.try_get("mine")?));
        }
        if let Some((rate, window)) = limits.rate {
            let query = sqlx::query(RATE).bind(&line.queue).bind(self.at.saturating_sub(window));
            room = room.min(left(Some(rate), query.fetch_one(&mut *self.tx).await?.try_get(0)?));
        }
        Ok(room)
    }

    /// The first of each name, without regard to partitions or without a partition.
    async fn heads(&mut self, line: &Line, room: i64, keyless: bool) -> Result<Vec<Head>> {
        let mut heads = Vec::new();
        for (name, version) in &line.names {
            let query = sqlx::query(HEADS)
                .bind(&line.queue)
                .bind(name)
                .bind(version)
                .bind(self.wanted.suspect_from)
                .bind(self.wanted.suspects)
                .bind(keyless)
                .bind(room);
            for row in query.fetch_all(&mut *self.tx).await? {
                heads.push((row.try_get("priority")?, row.try_get("due")?, row.try_get("submission")?));
            }
        }
        Ok(heads)
    }

    /// The first of each partition that has room, as many as that is.
    async fn partition_heads(&mut self, line: &Line, room: i64) -> Result<Vec<Head>> {
        let rooms = self.partitions(line, room).await?;
        let Some(most) = rooms.values().copied().max() else { return Ok(Vec::new()) };
        let query = sqlx::query(PARTITION_HEADS)
            .bind(json(rooms.keys()))
            .bind(&line.queue)
            .bind(json(&line.names))
            .bind(self.wanted.suspect_from)
            .bind(self.wanted.suspects)
            .bind(most);
        let (mut heads, mut taken) = (Vec::new(), HashMap::<String, i64>::new());
        for row in query.fetch_all(&mut *self.tx).await? {
            let key: String = row.try_get("partition_key")?;
            let room = rooms.get(&key).copied().unwrap_or(0);
            let taken = taken.entry(key).or_default();
            if *taken < room {
                *taken += 1;
                heads.push((row.try_get("priority")?, row.try_get("due")?, row.try_get("submission")?));
            }
        }
        Ok(heads)
    }

    /// The partitions that have room, from where the last claim stopped and once around.
    async fn partitions(&mut self, line: &Line, room: i64) -> Result<HashMap<String, i64>> {
        let limits = &line.limits;
        let since = self.at.saturating_sub(limits.partition_rate.map_or(0, |(_, window)| window));
        let (mut rooms, mut seen, mut last) = (HashMap::new(), 0, String::new());
        let cursor = limits.partition_cursor.as_str();
        let starts: &[&str] = if cursor.is_empty() { &[""] } else { &[cursor, ""] };
        for (turn, start) in starts.iter().enumerate() {
            let query = sqlx::query(PARTITIONS)
                .bind(&line.queue)
                .bind(start)
                .bind(self.executor_id)
                .bind(since)
                .bind(i64::try_from(MAX_PARTITIONS - seen).unwrap_or(0));
            for row in query.fetch_all(&mut *self.tx).await? {
                let key: String = row.try_get("key")?;
                if turn == 1 && *key > *cursor {
                    break;
                }
                let place = left(limits.partition_concurrency, row.try_get("running")?)
                    .min(left(limits.partition_executor_concurrency, row.try_get("mine")?))
                    .min(left(limits.partition_rate.map(|(rate, _)| rate), row.try_get("claimed")?))
                    .min(room);
                seen += 1;
                last.clone_from(&key);
                if place > 0 {
                    rooms.insert(key, place);
                }
            }
        }
        // All were looked at, or the next claim goes on behind the last.
        let next = if seen < MAX_PARTITIONS { "" } else { &last };
        sqlx::query(TURN).bind(&line.queue).bind(next).execute(&mut *self.tx).await?;
        Ok(rooms)
    }
}

/// What a limit leaves when so many are taken.
fn left(limit: Option<i64>, taken: i64) -> i64 {
    limit.map_or(i64::MAX, |limit| limit.saturating_sub(taken))
}

/// As one JSON array; keys, names and numbers always have a JSON text.
fn json<T: serde::Serialize>(values: impl IntoIterator<Item = T>) -> String {
    serde_json::to_string(&values.into_iter().collect::<Vec<_>>()).unwrap_or_default()
}
