//! Follows the objects of one resource: lists them, watches them, and lists them again when that is needed, while the
//! watch goes on.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::failure::WatchError;
use super::merge::Merge;
use super::retry::Retry;
use super::scope::FieldScope;
use super::source::{PageSize, RawPage, Source, WATCH_TIME, WatchEvent};
use super::target::{Criticality, WatchTarget};
use super::{Observation, Watches};
use crate::facts::store::Update;
use crate::observe::wire::{Encoded, Event, Item, Malformed, Message, Page};

/// How long one page may fail before the list begins again. The API server forgets tokens after five to ten minutes, and
/// what is kept to merge the list with events grows as long as the list takes.
const LONGEST_PAGE_RETRY: Duration = Duration::from_mins(5);
/// A watch that ends earlier is not opened again at once.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Each new key forces a relist, so pause after each one for this many times its duration, but not longer than
/// [`LONGEST_RELIST_PAUSE`]. Otherwise a series of new keys would keep the API server listing.
const RELIST_PAUSE_FACTOR: u32 = 4;
const LONGEST_RELIST_PAUSE: Duration = Duration::from_mins(1);

/// The receiver of observations is gone: the program ends.
struct Ended;

/// The question which version the API server has, before a watch is opened.
enum VersionCheck {
    NotNeeded,
    Needed,
    UnderWay(BoxFuture<'static, Result<String, WatchError>>),
}

/// One resource that is followed.
struct Follower<'a, K, F, R, O> {
    watches: &'a Watches,
    target: WatchTarget,
    source: Arc<Source>,
    read: R,
    observation: O,
    merge: Merge<K, F>,
    list: Option<BoxFuture<'static, Result<RawPage, WatchError>>>,
    /// What the page that is awaited, or tried again, continues; nothing for the first one.
    token: Option<String>,
    /// When the page before it arrived.
    page_arrived: Instant,
    list_retry: Retry,
    page_size: PageSize,
    list_began: Instant,
    /// The resource version of the list that is being read.
    list_version: Option<String>,
    wants_list: bool,
    watch: Option<BoxStream<'static, Result<WatchEvent, WatchError>>>,
    watch_began: Instant,
    watch_retry: Retry,
    /// Whether the watch has shown that the API server has what it had before.
    has_shown_events: bool,
    /// Whether that has to be asked for before the next watch: after etcd was restored from a backup, the API server
    /// accepts a watch from a later version, and shows nothing until that version is reached again, maybe hours later.
    /// A watch that ends in time and has shown an event or a bookmark, as most do, needs no such question.
    version_check: VersionCheck,
    /// Where the watch continues; nothing before the first list, and after the API server has forgotten the place.
    position: Option<String>,
    is_down: bool,
    /// When the next list may begin.
    relist_from: Instant,
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
        mut scope: FieldScope<'_>,
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
            page_size: source.page_size(),
            source: Arc::new(source),
            read,
            observation,
            merge: Merge::default(),
            list: None,
            token: None,
            page_arrived: now,
            list_retry: Retry::new(now),
            list_began: now,
            list_version: None,
            wants_list: true,
            watch: None,
            watch_began: now,
            watch_retry: Retry::new(now),
            has_shown_events: false,
            version_check: VersionCheck::NotNeeded,
            position: None,
            is_down: false,
            relist_from: now,
            unreadable: HashSet::new(),
            unreadable_before: HashSet::new(),
        };
        while follower.step(&mut scope).await.is_ok() {}
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
    async fn step(&mut self, scope: &mut FieldScope<'_>) -> Result<(), Ended> {
        let now = Instant::now();
        let needs_page = self.wants_list && self.list.is_none();
        if needs_page && now >= self.list_retry.from {
            if self.token.is_none() {
                scope.begin_list();
                self.merge.begin_list(scope.revision());
                (self.list_began, self.list_version) = (now, None);
            }
            self.request_page();
        }
        let needs_watch = self.watch.is_none() && self.position.is_some();
        if let (true, Some(position)) = (needs_watch && now >= self.watch_retry.from, &self.position) {
            let source = self.source.clone();
            match self.version_check {
                VersionCheck::NotNeeded => {
                    self.watch = Some(source.watch(position.clone()));
                    (self.watch_began, self.has_shown_events) = (now, false);
                }
                VersionCheck::Needed => {
                    let version = async move { source.version().await };
                    self.version_check = VersionCheck::UnderWay(version.boxed());
                }
                VersionCheck::UnderWay(_) => {}
            }
        }
        let has_list = self.list.is_some();
        let checks_version = matches!(self.version_check, VersionCheck::UnderWay(_));
        tokio::select! {
            () = sleep_until(self.list_retry.from), if needs_page && now < self.list_retry.from => Ok(()),
            () = sleep_until(self.watch_retry.from), if needs_watch && now < self.watch_retry.from => Ok(()),
            reason = scope.wait_for_relist(self.relist_from), if !self.wants_list => {
                info!(resource = %self.target.name, "listing again because {reason}");
                self.wants_list = true;
                Ok(())
            }
            version = poll_version(&mut self.version_check), if checks_version => {
                self.version_check = VersionCheck::NotNeeded;
                match version {
                    Ok(version) if self.is_earlier(&version) => self.on_watch_failed(&went_back()).await,
                    Ok(_) => {
                        self.hear();
                        Ok(())
                    }
                    Err(error) => self.on_watch_failed(&error).await,
                }
            }
            page = poll_list(&mut self.list), if has_list => {
                self.list = None;
                match page {
                    Ok(page) => self.on_page(&page).await,
                    // A few large objects, of one user maybe, must not keep all others from being listed.
                    Err(WatchError::TooLarge(_)) if self.page_size.shrink() => {
                        self.request_page();
                        Ok(())
                    }
                    Err(error) => self.on_list_failed(&error).await,
                }
            }
            event = poll_watch(&mut self.watch), if self.watch.is_some() => match event {
                Some(Ok(event)) => self.on_event(event).await,
                Some(Err(error)) => self.on_watch_failed(&error).await,
                // The API server ends each watch from time to time.
                None => {
                    self.watch = None;
                    self.hear();
                    if !self.has_shown_events || self.watch_began.elapsed() < WATCH_TIME {
                        self.version_check = VersionCheck::Needed;
                    }
                    if self.watch_began.elapsed() < SHORTEST_WATCH {
                        self.watch_retry.back_off(Duration::ZERO);
                    }
                    Ok(())
                }
            }
        }
    }

    fn request_page(&mut self) {
        let (source, token, objects) = (self.source.clone(), self.token.clone(), self.page_size.objects());
        let pages = self.watches.pages.clone();
        self.list = Some(async move { source.page_in_turn(token, objects, pages).await }.boxed());
    }

    async fn on_page(&mut self, raw: &RawPage) -> Result<(), Ended> {
        self.page_size.arrived(raw.message.size());
        let page = match Page::read(raw.message.as_encoded()) {
            Ok(page) => page,
            Err(malformed) => return self.on_list_failed(&WatchError::Malformed(malformed)).await,
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
        self.list_retry.reset();
        self.page_arrived = Instant::now();
        self.token = page.continue_token().map(str::to_owned);
        if self.token.is_some() {
            self.request_page();
            return Ok(());
        }
        self.wants_list = false;
        self.unreadable_before.clear();
        self.watches.metrics.set_unreadable(&self.target.name, self.unreadable.len());
        if self.position.is_none() {
            self.position = self.list_version.take();
        }
        let pause = (RELIST_PAUSE_FACTOR * self.list_began.elapsed()).min(LONGEST_RELIST_PAUSE);
        self.relist_from = Instant::now() + pause;
        for update in self.merge.end_list() {
            self.send(update).await?;
        }
        Ok(())
    }

    async fn on_event(&mut self, event: WatchEvent) -> Result<(), Ended> {
        self.hear();
        let event = match event {
            WatchEvent::Opened => {
                self.mark_up().await;
                return Ok(());
            }
            WatchEvent::Event(event) => event,
        };
        self.watches.metrics.count_watch_event(&self.target.name);
        match event.as_ref().map(Message::as_encoded).map_err(Clone::clone).and_then(Event::of) {
            Ok(Event::Applied(object)) => self.on_change(object, false).await,
            Ok(Event::Deleted(object)) => self.on_change(object, true).await,
            Ok(Event::Bookmark(version)) if self.is_earlier(&version) => {
                self.on_watch_failed(&went_back()).await
            }
            Ok(Event::Bookmark(version)) => {
                self.has_shown_events = true;
                self.position = Some(version);
                Ok(())
            }
            Ok(Event::Error { code, message }) => {
                let retry_after = Duration::ZERO;
                self.on_watch_failed(&WatchError::Refused { code, message, retry_after }).await
            }
            Err(malformed) => {
                self.skip(&malformed);
                Ok(())
            }
        }
    }

    async fn on_change(&mut self, object: Encoded<'_>, is_deleted: bool) -> Result<(), Ended> {
        let Some(item) = self.read(object) else { return Ok(()) };
        if self.is_earlier(&item.resource_version) {
            return self.on_watch_failed(&went_back()).await;
        }
        self.has_shown_events = true;
        if is_deleted {
            self.unreadable.remove(&item.key);
        }
        self.watches.metrics.set_unreadable(&self.target.name, self.unreadable.len());
        if !item.resource_version.is_empty() {
            self.position = Some(item.resource_version.clone());
        }
        match self.merge.event(item, is_deleted) {
            Some(update) => self.send(update).await,
            None => Ok(()),
        }
    }

    /// Reads an object. Reports one that cannot be read once, and without its content.
    fn read(&mut self, object: Encoded<'_>) -> Option<Item<K, F>> {
        match (self.read)(object) {
            Ok(item) => {
                match &item.unreadable {
                    None => drop(self.unreadable.remove(&item.key)),
                    Some(error) => {
                        let is_new = self.unreadable.insert(item.key.clone());
                        if is_new && !self.unreadable_before.contains(&item.key) {
                            let (resource, object) = (&self.target.name, &item.key);
                            warn!(%resource, %object, error, "an object cannot be read; it counts as existing");
                        }
                    }
                }
                Some(item)
            }
            Err(malformed) => {
                self.skip(&malformed);
                None
            }
        }
    }

    fn skip(&self, malformed: &Malformed) {
        warn!(resource = %self.target.name, error = %malformed, "skipping an object without a readable name");
        self.watches.metrics.count_skipped_object(&self.target.name);
    }

    /// Whether a resource version is earlier than the place of the watch, as after etcd was restored from a backup.
    fn is_earlier(&self, version: &str) -> bool {
        let position = self.position.as_ref().and_then(|position| position.parse::<u64>().ok());
        matches!((version.parse::<u64>(), position), (Ok(version), Some(position)) if version < position)
    }

    /// The page that failed is tried again. What came before it is listed again only if its token is no longer valid.
    async fn on_list_failed(&mut self, error: &WatchError) -> Result<(), Ended> {
        self.list_retry.back_off(error.retry_after());
        if error.is_expired() || self.page_arrived.elapsed() > LONGEST_PAGE_RETRY {
            self.token = None;
        }
        if self.position.is_some() || error.is_expired() {
            warn!(resource = %self.target.name, %error, "the list failed; retrying");
            self.watches.metrics.count_list_error(&self.target.name);
        } else {
            self.mark_down(error).await;
        }
        Ok(())
    }

    async fn on_watch_failed(&mut self, error: &WatchError) -> Result<(), Ended> {
        self.watch = None;
        self.version_check = VersionCheck::Needed;
        self.watch_retry.back_off(error.retry_after());
        if error.needs_list() {
            // A list under way may have begun before, and would be merged with events that no longer count.
            (self.list, self.token) = (None, None);
            self.position = None;
            self.version_check = VersionCheck::NotNeeded;
            self.wants_list = true;
        }
        self.mark_down(error).await;
        Ok(())
    }

    async fn send(&mut self, update: Update<K, F>) -> Result<(), Ended> {
        self.watches.observations.send((self.observation)(update)).await.map_err(|_| Ended)
    }

    fn hear(&self) {
        if let Criticality::Essential(name) = self.target.criticality {
            self.watches.health.mark_watch_heard(name);
        }
    }

    async fn mark_up(&mut self) {
        if std::mem::take(&mut self.is_down) {
            info!(resource = %self.target.name, "the watch works again");
        }
        self.watches.metrics.set_watch_up(&self.target.name, true);
        match &self.target.criticality {
            Criticality::Essential(name) => self.watches.health.mark_watch_up(name),
            // The receiver is gone only when the program ends.
            Criticality::Optional(id) => {
                drop(self.watches.observations.send(Observation::KindUp(id.clone())).await);
            }
        }
    }

    async fn mark_down(&mut self, error: &WatchError) {
        self.is_down = true;
        warn!(resource = %self.target.name, %error, "the watch failed; retrying");
        self.watches.metrics.count_watch_error(&self.target.name);
        match &self.target.criticality {
            Criticality::Essential(name) => self.watches.health.mark_watch_down(name),
            Criticality::Optional(id) => {
                let observation = Observation::KindDown(id.clone(), error.is_forbidden());
                drop(self.watches.observations.send(observation).await);
            }
        }
    }
}

fn went_back() -> WatchError {
    WatchError::WentBack
}

async fn poll_list(
    list: &mut Option<BoxFuture<'static, Result<RawPage, WatchError>>>,
) -> Result<RawPage, WatchError> {
    match list {
        Some(list) => list.await,
        None => std::future::pending().await,
    }
}

async fn poll_version(check: &mut VersionCheck) -> Result<String, WatchError> {
    match check {
        VersionCheck::UnderWay(request) => request.await,
        VersionCheck::NotNeeded | VersionCheck::Needed => std::future::pending().await,
    }
}

async fn poll_watch(
    watch: &mut Option<BoxStream<'static, Result<WatchEvent, WatchError>>>,
) -> Option<Result<WatchEvent, WatchError>> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}
