//! The requests of one resource that is followed: the pages of its list, and its watch, each with
//! its own retries, and when a new list is needed.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use pps_api::{
    Class, Failure, LARGEST_OBJECT, LARGEST_PAGE, PageBody, PageSize, Source, WATCH_TIME,
    WatchError, WatchSignal, expect_not_earlier,
};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// How long one page may fail before the list begins again. The API server forgets tokens after
/// five to ten minutes, and what is kept to merge the list with events grows as long as the list
/// takes.
const LONGEST_PAGE_RETRY: Duration = Duration::from_mins(5);
/// A watch that ends earlier is not opened again at once.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

const FIRST_BACKOFF: Duration = Duration::from_millis(800);
/// The longest wait between two attempts, unless the API server asks for a longer one. A Pod that
/// waits to be recorded should not have to wait long after the API server is back.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// After so long without a failure the next one counts as the first.
const FORGET_AFTER: Duration = Duration::from_mins(2);

/// Whether the API server has forgotten the resource version or the token.
fn is_expired(failure: &Failure) -> bool {
    failure.class() == Some(Class::Expired)
}

/// Whether a watch can only continue after a new list. What a definition has defined is gone with
/// it, even if the definition returns; and the API server may not know the place of the watch: not
/// any longer, or not yet.
pub(super) fn needs_list(failure: &Failure) -> bool {
    matches!(
        failure.class(),
        Some(Class::NotFound | Class::Expired | Class::VersionAhead)
    )
}

pub(super) struct Lister {
    source: Source,
    /// Bounds the pages in memory, of all lists together.
    pages: Arc<Semaphore>,
    size: PageSize,
    /// What the page that is awaited, or tried again, continues; nothing for the first one.
    pub(super) token: Option<String>,
    request: Option<BoxFuture<'static, Result<PageBody, Failure>>>,
    page_arrived: Instant,
    /// Whether a token has expired since the last complete list.
    has_expired: bool,
    retry: Retry,
}

impl Lister {
    pub(super) fn new(source: Source, pages: Arc<Semaphore>) -> Self {
        let now = Instant::now();
        let size = source.page_size();
        Self {
            source,
            pages,
            size,
            token: None,
            request: None,
            page_arrived: now,
            has_expired: false,
            retry: Retry::new(now),
        }
    }

    pub(super) fn restart(&mut self) {
        (self.token, self.request) = (None, None);
    }

    /// Waits for the next page. Nothing is lost if the wait is given up.
    pub(super) async fn page(&mut self) -> Result<PageBody, Failure> {
        loop {
            if self.request.is_none() {
                sleep_until(self.retry.from).await;
            }
            let source = &self.source;
            let token = &self.token;
            let objects = self.size.objects();
            let most = if objects > 1 {
                LARGEST_PAGE
            } else {
                LARGEST_OBJECT
            };
            let turns = Some(self.pages.clone());
            let new = || {
                source
                    .clone()
                    .page(token.clone(), objects, most, turns)
                    .boxed()
            };
            let page = self.request.get_or_insert_with(new).await;
            self.request = None;
            match page {
                // A few large objects, of one user maybe, must not keep all others from being
                // listed.
                Err(Failure::TooLarge(_)) if self.size.shrink() => {}
                page => return page,
            }
        }
    }

    /// A page of this many bytes was read. Returns whether it is the last one.
    pub(super) fn advance(&mut self, bytes: usize, token: Option<String>) -> bool {
        self.size.arrived(bytes);
        self.retry.reset();
        self.page_arrived = Instant::now();
        self.token = token;
        let is_last = self.token.is_none();
        self.has_expired &= !is_last;
        is_last
    }

    /// The page that failed is tried again. What came before it is listed again only if its token
    /// is no longer valid. Returns whether that is unusual: a token may expire, but not in one list
    /// after the other.
    pub(super) fn on_failure(&mut self, error: &Failure) -> bool {
        self.retry.back_off(error.retry_after());
        if is_expired(error) || self.page_arrived.elapsed() > LONGEST_PAGE_RETRY {
            self.token = None;
        }
        !is_expired(error) || std::mem::replace(&mut self.has_expired, true)
    }
}

/// Keeps a watch open.
pub(super) struct Watcher {
    source: Source,
    events: Option<BoxStream<'static, Result<WatchSignal, WatchError>>>,
    /// Where the watch continues; nothing before the first list, and after the API server has
    /// forgotten the place.
    pub(super) position: Option<String>,
    /// The latest version that a list, an event or a bookmark has shown. Kept when the place is
    /// lost, so that the next list shows whether the API server has gone back.
    pub(super) reached: Option<u64>,
    opened: Instant,
    /// Whether the watch has failed and is not open again.
    pub(super) is_failing: bool,
    /// Whether the watch has shown that the API server has what it had before.
    has_shown_events: bool,
    /// Whether that has to be asked for before the next watch: after etcd was restored from a
    /// backup, the API server accepts a watch from a later version, and shows nothing until that
    /// version is reached again, maybe hours later. A watch that ends in time and has shown an
    /// event or a bookmark, as most do, needs no such question.
    needs_version: bool,
    retry: Retry,
}

impl Watcher {
    pub(super) fn new(source: Source) -> Self {
        let now = Instant::now();
        Self {
            source,
            events: None,
            position: None,
            reached: None,
            opened: now,
            is_failing: false,
            has_shown_events: false,
            needs_version: false,
            retry: Retry::new(now),
        }
    }

    /// Whether there is a place from which the watch goes on.
    pub(super) fn is_open(&self) -> bool {
        self.position.is_some()
    }

    /// Ends the watch. The next one begins where the next list ends.
    pub(super) fn close(&mut self) {
        self.events = None;
        self.position = None;
        self.needs_version = false;
    }

    /// Waits for the next event; `None` if the API server has ended the watch. Nothing is lost if
    /// the wait is given up.
    pub(super) async fn next(&mut self) -> Result<Option<WatchSignal>, WatchError> {
        let Some(position) = self.position.clone() else {
            return pending().await;
        };
        if self.events.is_none() {
            sleep_until(self.retry.from).await;
            (self.opened, self.has_shown_events) = (Instant::now(), false);
        }
        let new = || {
            let asks = std::mem::take(&mut self.needs_version);
            let not_before = self.reached.filter(|_| asks);
            self.source.clone().watch(position, not_before)
        };
        let event = self.events.get_or_insert_with(new).next().await;
        match event {
            None => self.on_end(),
            Some(Ok(WatchSignal::Opened)) => self.is_failing = false,
            Some(_) => {}
        }
        event.transpose()
    }

    /// An event or a bookmark of this version was read.
    pub(super) fn advance(&mut self, version: &str) -> Result<(), WatchError> {
        let position = self.position.as_ref().and_then(|place| place.parse().ok());
        expect_not_earlier(version, position)?;
        self.note(version);
        self.has_shown_events = true;
        if !version.is_empty() {
            self.position = Some(version.to_owned());
        }
        Ok(())
    }

    /// A list or the watch has shown this version.
    pub(super) fn note(&mut self, version: &str) {
        self.reached = self.reached.max(version.parse().ok());
    }

    /// The API server ends each watch from time to time.
    fn on_end(&mut self) {
        self.events = None;
        self.needs_version = !self.has_shown_events || self.opened.elapsed() < WATCH_TIME;
        if self.opened.elapsed() < SHORTEST_WATCH {
            self.retry.back_off(Duration::ZERO);
        }
    }

    pub(super) fn on_failure(&mut self, error: &Failure) {
        self.events = None;
        self.is_failing = true;
        self.retry.back_off(error.retry_after());
        self.needs_version = !needs_list(error);
        if needs_list(error) {
            self.position = None;
        }
    }
}

/// When a list or a watch that failed may be tried again. Each has its own wait: a list that fails
/// for long must not keep a watch closed, nor a watch that was closed end the wait that the API
/// server asked for.
struct Retry {
    /// When the next attempt may begin.
    from: Instant,
    failed_at: Instant,
    failures: u32,
}

impl Retry {
    fn new(now: Instant) -> Self {
        Self {
            from: now,
            failed_at: now,
            failures: 0,
        }
    }

    /// Waits longer each time, and as long as the API server asks for.
    fn back_off(&mut self, at_least: Duration) {
        if self.failed_at.elapsed() > FORGET_AFTER {
            self.reset();
        }
        let pause = FIRST_BACKOFF
            .saturating_mul(1 << self.failures.min(8))
            .min(LONGEST_BACKOFF)
            .max(at_least);
        self.failures += 1;
        self.failed_at = Instant::now();
        self.from = self.failed_at + pause;
    }

    /// An attempt has succeeded.
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Asks for new lists, each time with the revision that they must have.
pub(crate) type Relist = watch::Receiver<u64>;

/// When a watch has to list again because it must keep other fields, and the revision of the fields
/// in its next list.
pub(super) struct Relisting {
    requests: Relist,
    /// How long after a request the new fields are in force.
    delay: Duration,
    /// When the fields are in force that were asked for last, and their revision.
    due: Option<(Instant, u64)>,
    /// The revision of lists that begin now.
    pub(super) revision: u64,
}

impl Relisting {
    /// Each object is kept with all fields that are ever needed.
    pub(super) fn fixed() -> Self {
        Self::new(watch::Sender::new(0).subscribe(), Duration::ZERO)
    }

    /// A new list is needed this long after a request.
    pub(super) fn new(requests: Relist, delay: Duration) -> Self {
        Self {
            requests,
            delay,
            due: None,
            revision: 0,
        }
    }

    /// A list begins now. It has all fields that need no delay.
    pub(super) fn begin_list(&mut self) {
        if self.delay.is_zero() {
            (self.due, self.revision) = (None, *self.requests.borrow_and_update());
        }
    }

    /// Waits until a new list is needed, but at least until this time. Never returns if none can
    /// be.
    pub(super) async fn wait_for_relist(&mut self, not_before: Instant) {
        if self.due.is_none() && self.requests.changed().await.is_err() {
            return pending().await;
        }
        // Kept, so that the request is not lost if something else happens first.
        let request = || {
            (
                Instant::now() + self.delay,
                *self.requests.borrow_and_update(),
            )
        };
        let (time, revision) = *self.due.get_or_insert_with(request);
        sleep_until(time.max(not_before)).await;
        (self.due, self.revision) = (None, revision);
    }
}
