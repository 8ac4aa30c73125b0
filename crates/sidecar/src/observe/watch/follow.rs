//! Follows the objects of one resource: lists them, watches them, and lists them again when that is needed,
//! while the watch goes on.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::answer::WatchError;
use super::merge::Merge;
use super::requests::{Lister, Watcher};
use super::scope::Scope;
use super::source::{RawPage, Source, WatchEvent};
use super::{Observation, WatchTarget, Watches};
use crate::observe::wire::{Encoded, Event, Item, Malformed, Page};
use pps_recorder::facts::store::Update;

/// Each new key forces a relist, so pause after each one for this many times its duration, but not longer
/// than [`LONGEST_RELIST_PAUSE`]. Otherwise a series of new keys would keep the API server listing.
const RELIST_PAUSE_FACTOR: u32 = 4;
const LONGEST_RELIST_PAUSE: Duration = Duration::from_mins(1);

/// The receiver of observations is gone: the program ends.
struct Ended;

/// One resource that is followed.
struct Follower<'a, K, F, R, O> {
    watches: &'a Watches,
    target: WatchTarget,
    read: R,
    observation: O,
    scope: Scope,
    lister: Lister,
    watcher: Watcher,
    merge: Merge<K, F>,
    is_listing: bool,
    list_began: Instant,
    /// The resource version of the list that is being read, from its first page on.
    list_version: Option<String>,
    /// When the next list may begin.
    relist_from: Instant,
    is_down: bool,
    unreadable: HashSet<K>,
    /// Those at the beginning of the list that is being read.
    unreadable_before: HashSet<K>,
}

impl Watches {
    /// Follows one resource until the receiver of observations is gone. Errors are reported and retried.
    pub(super) async fn follow<K, F>(
        &self,
        target: WatchTarget,
        source: Source,
        scope: Scope,
        read: impl Fn(Encoded<'_>) -> Result<Item<K, F>, Malformed>,
        observation: impl Fn(Update<K, F>) -> Observation,
    ) where
        K: Clone + Eq + Hash + Display + Debug,
        F: Clone,
    {
        let now = Instant::now();
        let mut follower = Follower {
            watches: self,
            target,
            read,
            observation,
            scope,
            lister: Lister::new(source.clone(), self.pages.clone()),
            watcher: Watcher::new(source),
            merge: Merge::default(),
            is_listing: false,
            list_began: now,
            list_version: None,
            relist_from: now,
            is_down: false,
            unreadable: HashSet::new(),
            unreadable_before: HashSet::new(),
        };
        follower.begin_list();
        while follower.step().await.is_ok() {}
    }
}

impl<K, F, R, O> Follower<'_, K, F, R, O>
where
    K: Clone + Eq + Hash + Display + Debug,
    F: Clone,
    R: Fn(Encoded<'_>) -> Result<Item<K, F>, Malformed>,
    O: Fn(Update<K, F>) -> Observation,
{
    /// Waits for the next thing to happen, and handles it.
    async fn step(&mut self) -> Result<(), Ended> {
        tokio::select! {
            page = self.lister.page(), if self.is_listing => match page {
                Ok(page) => self.on_page(&page).await,
                Err(error) => self.on_list_failed(&error).await,
            },
            event = self.watcher.next() => match event {
                Ok(event) => self.on_event(event).await,
                Err(error) => self.on_watch_failed(&error).await,
            },
            reason = self.scope.wait_for_relist(self.relist_from), if !self.is_listing => {
                info!(resource = %self.target.name, "listing again because {reason}");
                self.begin_list();
                Ok(())
            }
        }
    }

    /// Begins to list all objects; a list under way is given up.
    fn begin_list(&mut self) {
        self.lister.restart();
        self.scope.begin_list();
        self.merge.begin_list(self.scope.revision);
        (self.is_listing, self.list_began, self.list_version) = (true, Instant::now(), None);
    }

    async fn on_page(&mut self, raw: &RawPage) -> Result<(), Ended> {
        let page = match Page::read(&raw.message) {
            Ok(page) => page,
            Err(malformed) => {
                let error = WatchError::Malformed(malformed);
                self.lister.on_failure(&error);
                return self.on_list_failed(&error).await;
            }
        };
        self.hear();
        if self.list_version.is_none() {
            self.list_version = Some(page.resource_version().to_owned());
            self.unreadable_before = std::mem::take(&mut self.unreadable);
        }
        for update in self.merge.begin_page(page.resource_version()) {
            self.send(update).await?;
        }
        for object in page.items() {
            self.watches.metrics.count_watch_event(&self.target.name);
            if let Some(item) = self.read(object)
                && let Some(update) = self.merge.list_item(item)
            {
                self.send(update).await?;
            }
        }
        if self.lister.advance(raw.message.size(), page.continue_token()) {
            self.end_list().await
        } else {
            Ok(())
        }
    }

    async fn end_list(&mut self) -> Result<(), Ended> {
        self.is_listing = false;
        self.unreadable_before.clear();
        self.watches.metrics.set_unreadable(&self.target.name, self.unreadable.len());
        self.watcher.begin_at(self.list_version.take());
        let pause = (RELIST_PAUSE_FACTOR * self.list_began.elapsed()).min(LONGEST_RELIST_PAUSE);
        self.relist_from = Instant::now() + pause;
        for update in self.merge.end_list() {
            self.send(update).await?;
        }
        Ok(())
    }

    async fn on_event(&mut self, event: Option<WatchEvent>) -> Result<(), Ended> {
        self.hear();
        let message = match event {
            None => return Ok(()),
            Some(WatchEvent::Opened) => {
                self.mark_up().await;
                return Ok(());
            }
            Some(WatchEvent::Event(message)) => message,
        };
        self.watches.metrics.count_watch_event(&self.target.name);
        let result = match message.as_ref().map_err(Clone::clone).and_then(Event::read) {
            Ok(Event::Applied(object)) => return self.on_change(object, false).await,
            Ok(Event::Deleted(object)) => return self.on_change(object, true).await,
            Ok(Event::Bookmark(version)) => self.watcher.advance(&version),
            Ok(Event::Error { code, message }) => {
                let error = WatchError::Refused { code, message, retry_after: Duration::ZERO };
                self.watcher.on_failure(&error);
                Err(error)
            }
            Err(malformed) => {
                self.skip(&malformed);
                Ok(())
            }
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.on_watch_failed(&error).await,
        }
    }

    async fn on_change(&mut self, object: Encoded<'_>, is_deleted: bool) -> Result<(), Ended> {
        let Some(item) = self.read(object) else { return Ok(()) };
        if let Err(error) = self.watcher.advance(&item.resource_version) {
            return self.on_watch_failed(&error).await;
        }
        if is_deleted {
            self.unreadable.remove(&item.key);
        }
        self.watches.metrics.set_unreadable(&self.target.name, self.unreadable.len());
        match self.merge.event(item, is_deleted) {
            Some(update) => self.send(update).await,
            None => Ok(()),
        }
    }

    /// Reads an object. Reports one that cannot be read once, and without its content.
    fn read(&mut self, object: Encoded<'_>) -> Option<Item<K, F>> {
        let item = (self.read)(object).map_err(|malformed| self.skip(&malformed)).ok()?;
        if let Some(error) = &item.unreadable {
            let is_new = self.unreadable.insert(item.key.clone());
            if is_new && !self.unreadable_before.contains(&item.key) {
                let (resource, object) = (&self.target.name, &item.key);
                warn!(%resource, %object, error, "an object cannot be read; it counts as existing");
            }
        } else {
            self.unreadable.remove(&item.key);
        }
        Some(item)
    }

    fn skip(&self, malformed: &Malformed) {
        warn!(resource = %self.target.name, error = %malformed, "skipping an object without a readable name");
        self.watches.metrics.count_skipped_object(&self.target.name);
    }

    async fn on_list_failed(&mut self, error: &WatchError) -> Result<(), Ended> {
        if self.lister.is_at_start() {
            self.begin_list();
        }
        if self.watcher.has_position() || error.is_expired() {
            warn!(resource = %self.target.name, %error, "the list failed; retrying");
            self.watches.metrics.count_list_error(&self.target.name);
        } else {
            self.mark_down(error).await;
        }
        Ok(())
    }

    async fn on_watch_failed(&mut self, error: &WatchError) -> Result<(), Ended> {
        if error.needs_list() {
            // A list under way may have begun before, and would be merged with events that no longer count.
            self.begin_list();
        }
        self.mark_down(error).await;
        Ok(())
    }

    async fn send(&mut self, update: Update<K, F>) -> Result<(), Ended> {
        self.watches.observations.send((self.observation)(update)).await.map_err(|_| Ended)
    }

    fn hear(&self) {
        if self.target.kind.is_none() {
            self.watches.health.mark_watch_heard(&self.target.name);
        }
    }

    async fn mark_up(&mut self) {
        if std::mem::take(&mut self.is_down) {
            info!(resource = %self.target.name, "the watch works again");
        }
        self.watches.metrics.set_watch_up(&self.target.name, true);
        match &self.target.kind {
            None => self.watches.health.mark_watch(&self.target.name, true),
            // The receiver is gone only when the program ends.
            Some(id) => drop(self.watches.observations.send(Observation::KindUp(id.clone())).await),
        }
    }

    async fn mark_down(&mut self, error: &WatchError) {
        self.is_down = true;
        warn!(resource = %self.target.name, %error, "the watch failed; retrying");
        self.watches.metrics.count_watch_error(&self.target.name);
        match &self.target.kind {
            None => self.watches.health.mark_watch(&self.target.name, false),
            Some(id) => {
                let observation = Observation::KindDown(id.clone(), error.is_forbidden());
                drop(self.watches.observations.send(observation).await);
            }
        }
    }
}
