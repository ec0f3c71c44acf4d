//! What each kill found recorded and in flight, against what ran in the end.

use std::collections::{BTreeMap, BTreeSet};

use crate::scene::{LIMIT, Launch, Scene, eventually};

/// Kept over the kills of one case.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Bodies that had begun and were not recorded, by how many kills found them so.
    in_flight: BTreeMap<String, usize>,
    /// Bodies that a kill found recorded, and how often they had begun by then.
    recorded: BTreeMap<String, usize>,
    pub(crate) kills: usize,
}

/// `workflow branch:index` of each record.
async fn records(scene: &Scene) -> BTreeSet<String> {
    let sql = "SELECT workflow_id || ' ' || branch || ':' || step_index FROM workflow_steps";
    let all = scene.texts(sql).await;
    let keys: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(keys.len(), all.len(), "a key was recorded twice: {all:?}");
    keys
}

fn begun(scene: &Scene) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for [workflow, place, _] in scene.effects() {
        *counts.entry(format!("{workflow} {place}")).or_default() += 1;
    }
    counts
}

impl Ledger {
    /// Starts the same victim again and again, each time to be killed at a point, until `is_done`.
    pub(crate) async fn kill_at(
        &mut self,
        scene: &Scene,
        launch: impl Fn() -> Launch,
        kills: &[(&str, u32)],
        is_done: impl AsyncFn() -> bool,
    ) {
        for (point, n) in kills {
            let mut victim = launch().dies_at(point, *n).spawn();
            let mut killed = false;
            eventually("a kill or the end", LIMIT, async || {
                killed = victim.ended_by().is_some();
                killed || is_done().await
            })
            .await;
            if !killed {
                victim.kill();
                break;
            }
            self.note_kill(scene, &victim.pid()).await;
        }
    }

    /// To be called when the only process has been killed: what was in flight at its end may run once more.
    pub(crate) async fn note_kill(&mut self, scene: &Scene, pid: &str) {
        scene.nothing_in_flight().await;
        self.kills += 1;
        let (records, counts) = (records(scene).await, begun(scene));
        let its: BTreeSet<String> = scene
            .effects()
            .into_iter()
            .filter(|[_, _, by]| by == pid)
            .map(|[workflow, place, _]| format!("{workflow} {place}"))
            .collect();
        for key in its.difference(&records) {
            *self.in_flight.entry(key.clone()).or_default() += 1;
        }
        for key in records {
            let count = counts[&key];
            assert_eq!(*self.recorded.entry(key.clone()).or_insert(count), count, "{key} ran again after its record");
        }
    }

    /// To be called when all has ended: so many steps are recorded, each began once, and once more for each kill that
    /// found it in flight.
    pub(crate) async fn settle(&self, scene: &Scene, steps: usize) {
        let (records, counts) = (records(scene).await, begun(scene));
        assert_eq!(records.len(), steps, "{records:?}");
        assert_eq!(counts.keys().collect::<Vec<_>>(), records.iter().collect::<Vec<_>>());
        for (key, count) in counts {
            let allowed = 1 + self.in_flight.get(&key).copied().unwrap_or_default();
            assert_eq!(count, allowed, "{key} began {count} times, in flight at {} kills", allowed - 1);
            if let Some(before) = self.recorded.get(&key) {
                assert_eq!(count, *before, "{key} ran again after its record");
            }
        }
        assert_eq!(scene.number("SELECT count(*) FROM workflows WHERE status <> 'done'").await, 0);
        assert_eq!(scene.number("SELECT count(*) FROM workflows WHERE executor_id IS NOT NULL").await, 0);
    }
}
