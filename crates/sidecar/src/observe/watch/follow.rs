//! Follows the objects of one resource: lists them, watches them, and lists them again when that is
//! needed, while the watch goes on.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use kube::core::WatchEvent;
use pps_api::{
    Failure, PageBody, Refusal, Source, WatchError, WatchSignal, expect_not_earlier, read_event,
};
use tokio::time::Instant;
use tracing::{info, warn};

use super::merge::Merge;
use super::requests::{Lister, Relisting, Watcher, needs_list};
use super::{Observation, Watches};
use crate::observe::discovery::WatchId;
use crate::observe::objects::{Item, Malformed};
use crate::telemetry::metrics::{Counters, Metrics, count};
use pps_recorder::facts::WatchState;
use pps_recorder::facts::store::Update;

/// Each new key forces a relist, so pause after each one for this many times its duration, but not
/// longer than [`LONGEST_RELIST_PAUSE`]. Otherwise a series of new keys would keep the API server
/// listing.
const RELIST_PAUSE_FACTOR: u32 = 4;
const LONGEST_RELIST_PAUSE: Duration = Duration::from_mins(1);

/// How many objects of a list may have no readable name. Where there are more, something else than
/// the objects is at fault, and the list must not pass for one that has only the others.
const MAX_NAMELESS: usize = 1_000;

/// The API server has gone back to an earlier state. What this process knows of it may never have
/// been, or may come again, and its writes would rest on that. So it ends, and starts again with
/// what is there.
#[derive(Debug, thiserror::Error)]
#[error(
    "the API server has gone back to an earlier state, as after etcd was restored from a backup; \
     start again to read everything"
)]
pub(crate) struct StoreWentBack;

/// A list that is being read.
struct ListUnderWay {
    began: Instant,
    /// The version that had been reached when the list began: it cannot be earlier.
    not_before: Option<u64>,
    /// From its first page on.
    resource_version: Option<String>,
}

struct Follower<'a, K, F, R, O> {
    watches: &'a Watches,
    /// The resource in logs and metrics, such as `pods` or `databases.example.io`.
    name: &'a str,
    /// The workload kind that is not recorded without this watch. Without any other watch, the
    /// sidecar is not ready.
    kind: Option<&'a WatchId>,
    read: R,
    observation: O,
    relisting: Relisting,
    lister: Lister,
    watcher: Watcher,
    merge: Merge<K, F>,
    /// The list that is being read.
    list: Option<ListUnderWay>,
    relist_from: Instant,
    is_down: bool,
    /// Whether a list beside the watch has failed: until there is one, new keys have no values.
    is_relist_failing: bool,
    unreadable: HashSet<K>,
    /// Those at the beginning of the list that is being read.
    unreadable_before: HashSet<K>,
    nameless: usize,
}

impl Watches {
    /// Follows one resource until the API server goes back to an earlier state. All other errors
    /// are reported and retried.
    pub(super) async fn follow<K, F>(
        &self,
        name: &str,
        kind: Option<&WatchId>,
        source: Source,
        relisting: Relisting,
        read: impl Fn(&str) -> Result<Item<K, F>, Malformed>,
        observation: impl Fn(Update<K, F>) -> Observation,
    ) -> StoreWentBack
    where
        K: Clone + Eq + Hash + Display + Debug,
        F: Clone,
    {
        let now = Instant::now();
        let mut follower = Follower {
            watches: self,
            name,
            kind,
            read,
            observation,
            relisting,
            lister: Lister::new(source.clone(), self.pages.clone()),
            watcher: Watcher::new(source),
            merge: Merge::default(),
            list: None,
            relist_from: now,
            is_down: false,
            is_relist_failing: false,
            unreadable: HashSet::new(),
            unreadable_before: HashSet::new(),
            nameless: 0,
        };
        follower.begin_list();
        loop {
            if let Err(end) = follower.step().await {
                return end;
            }
        }
    }
}

impl<K, F, R, O> Follower<'_, K, F, R, O>
where
    K: Clone + Eq + Hash + Display + Debug,
    F: Clone,
    R: Fn(&str) -> Result<Item<K, F>, Malformed>,
    O: Fn(Update<K, F>) -> Observation,
{
    async fn step(&mut self) -> Result<(), StoreWentBack> {
        tokio::select! {
            page = self.lister.page(), if self.list.is_some() => {
                match self.on_page(page).await {
                    Ok(()) => {}
                    Err(WatchError::WentBack) => return Err(StoreWentBack),
                    Err(WatchError::Failed(failure)) => self.on_list_failed(&failure).await,
                }
            }
            event = self.watcher.next() => {
                match self.on_event(event).await {
                    Ok(()) => {}
                    Err(WatchError::WentBack) => return Err(StoreWentBack),
                    Err(WatchError::Failed(failure)) => self.on_watch_failed(&failure).await,
                }
            }
            () = self.relisting.wait_for_relist(self.relist_from), if self.list.is_none() => {
                info!(
                    resource = self.name,
                    "listing again: there are new keys, or another definition",
                );
                self.begin_list();
            }
        }
        Ok(())
    }

    /// Begins to list all objects; a list under way is given up.
    fn begin_list(&mut self) {
        self.lister.restart();
        self.relisting.begin_list();
        self.merge.begin_list(self.relisting.revision);
        self.list = Some(ListUnderWay {
            began: Instant::now(),
            not_before: self.watcher.reached,
            resource_version: None,
        });
    }

    /// Ends the watch and lists again: where versions are no numbers, nothing says which of a list
    /// and an event is newer.
    fn list_without_watch(&mut self) {
        self.watcher.close();
        self.begin_list();
    }

    async fn on_page(&mut self, page: Result<PageBody, Failure>) -> Result<(), WatchError> {
        let body = page?;
        let page = body.read()?;
        let Some(list) = &mut self.list else {
            return Ok(());
        };
        if list.resource_version.is_none() {
            expect_not_earlier(&page.resource_version, list.not_before)?;
            self.watcher.note(&page.resource_version);
            if self.watcher.is_open() && page.resource_version.parse::<u64>().is_err() {
                self.list_without_watch();
                return Ok(());
            }
            list.resource_version = Some(page.resource_version.clone());
            self.unreadable_before = std::mem::take(&mut self.unreadable);
            self.nameless = 0;
        }
        let updates = self.merge.begin_page(&page.resource_version);
        self.send(updates).await;
        for object in page.items {
            self.count(|metrics| &metrics.watch_events);
            if let Some(item) = self.read(object.get()) {
                let update = self.merge.list_item(item);
                self.send(update).await;
            } else {
                self.nameless += 1;
                if self.nameless > MAX_NAMELESS {
                    let error = format!(
                        "more than {MAX_NAMELESS} objects of the list have no readable name"
                    );
                    return Err(Failure::Unreadable(error).into());
                }
            }
        }
        if self.lister.advance(body.size(), page.continue_token) {
            self.end_list().await;
        }
        Ok(())
    }

    async fn end_list(&mut self) {
        let Some(list) = self.list.take() else {
            return;
        };
        self.unreadable_before.clear();
        self.watches
            .metrics
            .set_unreadable(self.name, self.unreadable.len());
        if let Some(version) = list.resource_version {
            self.watcher.position.get_or_insert(version);
        }
        let pause = (RELIST_PAUSE_FACTOR * list.began.elapsed()).min(LONGEST_RELIST_PAUSE);
        self.relist_from = Instant::now() + pause;
        let updates = self.merge.end_list();
        self.send(updates).await;
        if std::mem::take(&mut self.is_relist_failing) && !self.watcher.is_failing {
            self.mark_up().await;
        }
    }

    async fn on_event(
        &mut self,
        event: Result<Option<WatchSignal>, WatchError>,
    ) -> Result<(), WatchError> {
        let line = match event? {
            None => return Ok(()),
            Some(WatchSignal::Opened) => {
                if !self.is_relist_failing {
                    self.mark_up().await;
                }
                return Ok(());
            }
            Some(WatchSignal::Line(line)) => line,
        };
        self.count(|metrics| &metrics.watch_events);
        let (object, is_deleted) = match read_event(&line) {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
            Ok(WatchEvent::Deleted(object)) => (object, true),
            Ok(WatchEvent::Bookmark(bookmark)) => {
                return self.watcher.advance(&bookmark.metadata.resource_version);
            }
            Ok(WatchEvent::Error(status)) => {
                return Err(Failure::from(Refusal::of_event(&status)).into());
            }
            Err(unreadable) => {
                self.skip(&unreadable);
                return Ok(());
            }
        };
        let Some(item) = self.read(object.get()) else {
            return Ok(());
        };
        self.watcher.advance(&item.resource_version)?;
        if is_deleted {
            self.unreadable.remove(&item.key);
        }
        self.watches
            .metrics
            .set_unreadable(self.name, self.unreadable.len());
        let update = self.merge.event(item, is_deleted);
        self.send(update).await;
        Ok(())
    }

    /// Reads an object. Reports one that cannot be read once, and without its content.
    fn read(&mut self, object: &str) -> Option<Item<K, F>> {
        let item = (self.read)(object)
            .map_err(|malformed| self.skip(&malformed))
            .ok()?;
        if let Some(error) = &item.unreadable {
            let is_new = self.unreadable.insert(item.key.clone());
            if is_new && !self.unreadable_before.contains(&item.key) {
                let object = &item.key;
                warn!(
                    resource = self.name,
                    %object,
                    error,
                    "an object cannot be read; it counts as existing",
                );
            }
        } else {
            self.unreadable.remove(&item.key);
        }
        Some(item)
    }

    fn skip(&self, error: &impl Display) {
        warn!(
            resource = self.name,
            %error,
            "skipping an object without a readable name",
        );
        self.count(|metrics| &metrics.skipped_objects);
    }

    fn count(&self, counters: impl FnOnce(&Metrics) -> &Counters<1>) {
        count(counters(&self.watches.metrics), [("resource", self.name)]);
    }

    async fn on_list_failed(&mut self, error: &Failure) {
        let is_unusual = self.lister.on_failure(error);
        if self.lister.token.is_none() {
            self.begin_list();
        }
        if is_unusual {
            self.is_relist_failing = self.watcher.position.is_some();
            return self.mark_down("list", error).await;
        }
        warn!(resource = self.name, %error, "the list failed; retrying");
        self.count(|metrics| &metrics.watch_errors);
    }

    async fn on_watch_failed(&mut self, error: &Failure) {
        self.watcher.on_failure(error);
        if needs_list(error) {
            // A list under way may have begun before, and would be merged with events that no
            // longer count.
            self.begin_list();
        }
        self.mark_down("watch", error).await;
    }

    async fn send(&mut self, updates: impl IntoIterator<Item = Update<K, F>>) {
        for update in updates {
            self.watches.observe((self.observation)(update)).await;
        }
    }

    async fn mark_up(&mut self) {
        if std::mem::take(&mut self.is_down) {
            info!(resource = self.name, "the watch works again");
        }
        self.report(WatchState::Up).await;
    }

    async fn mark_down(&mut self, request: &str, error: &Failure) {
        self.is_down = true;
        warn!(resource = self.name, %error, "the {request} failed; retrying");
        self.count(|metrics| &metrics.watch_errors);
        self.report(if error.code() == Some(403) {
            WatchState::Forbidden
        } else {
            WatchState::Down
        })
        .await;
    }

    async fn report(&mut self, state: WatchState) {
        let is_up = state == WatchState::Up;
        self.watches.metrics.set_watch_up(self.name, is_up);
        match self.kind {
            None => self.watches.health.mark_watch(self.name, is_up),
            Some(id) => {
                self.watches
                    .observe(Observation::Kind(id.clone(), state))
                    .await;
            }
        }
    }
}
