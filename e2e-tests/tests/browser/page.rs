//! The page, as a user sees it.

/// Plays stories of the page one after the other, each from a link of its own.
macro_rules! play {
    ($page:expr; $($story:path),* $(,)?) => {
        $($story($page).await.context(stringify!($story))?;)*
    };
}

/// The same in a browser of their own, which takes seconds to start.
macro_rules! in_one_browser {
    ($($story:path),* $(,)?) => {{
        let page = Page::open("").await?;
        play!(&page; $($story),*);
        page.close().await
    }};
}

mod accessibility;
mod examples;
mod keyboard;
mod links;
mod picture;
mod texts;

use anyhow::{Context, Result};
use pps_e2e::browser::Browser;
use serde_json::{Value, json};

/// The page has the engine's answer to the last change, and its link.
pub(super) const IDLE: &str =
    "document.getElementById('cluster').getAttribute('aria-busy') === 'false'";

/// What a user sees of a state.
const SEEN: &str = r##"(() => {
    const text = (id) => document.getElementById(id).innerText;
    const value = (id) => document.getElementById(id).value;
    return {
        objects: value("objects"), settings: value("settings"), evicts: document.getElementById("evict").checked, example: value("example"), title: text("example-title"),
        steps: [...document.querySelectorAll("#timeline li")].map((step) => `${step.className} ${step.innerText}`),
        cluster: text("cluster"), outcome: text("outcome"), details: text("details"), states: text("states"),
        selected: [...document.querySelectorAll("#cluster [aria-pressed=true]")].map((element) => element.dataset.key),
        problems: text("objects-problems"),
    };
})()"##;

#[tokio::test]
async fn links_hold_the_whole_state_and_the_keyboard_is_enough() -> Result<()> {
    in_one_browser!(links::hold_the_whole_state, keyboard::is_enough)
}

#[tokio::test]
async fn texts_are_checked_as_they_are_typed_and_the_page_is_accessible() -> Result<()> {
    in_one_browser!(
        texts::are_checked_as_they_are_typed,
        accessibility::of_the_page
    )
}

/// Opens a link in the playground that a browser shows, as by a click on it. Returns whether it was
/// another one: then the page shows it once it is idle.
pub(super) async fn follow(browser: &Browser, fragment: &str) -> Result<bool> {
    let script = "if (location.hash === `#${arguments[0]}` || location.hash === arguments[0]) \
                  return false;
        document.getElementById('cluster').setAttribute('aria-busy', 'true');
        location.hash = arguments[0];
        return true;";
    Ok(browser.script(script, vec![json!(fragment)]).await? == json!(true))
}

/// The page in a browser.
struct Page {
    browser: Browser,
}

impl Page {
    /// Opens the page with a fragment, which may be empty.
    async fn open(fragment: &str) -> Result<Self> {
        let page = Self {
            browser: Browser::start().await?,
        };
        page.load(fragment).await?;
        Ok(page)
    }

    /// Loads the page again, with a fragment.
    async fn load(&self, fragment: &str) -> Result<()> {
        self.browser.open(&format!("#{fragment}")).await?;
        self.settle().await
    }

    /// Opens a link in the page as it is: to load the page again takes ten times as long.
    async fn go(&self, fragment: &str) -> Result<()> {
        if follow(&self.browser, fragment).await? {
            self.settle().await
        } else {
            self.load(fragment).await
        }
    }

    async fn settle(&self) -> Result<()> {
        self.browser.wait_until(IDLE).await
    }

    async fn click(&self, selector: &str) -> Result<()> {
        self.browser.click(selector).await?;
        self.settle()
            .await
            .with_context(|| format!("after a click on {selector}"))
    }

    async fn choose(&self, example: &str) -> Result<()> {
        self.browser
            .find("#example")
            .await?
            .select_by_value(example)
            .await?;
        self.settle().await
    }

    async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        self.browser.fill(selector, text).await?;
        self.settle().await
    }

    async fn seen(&self) -> Result<Value> {
        self.browser.evaluate(SEEN).await
    }

    async fn text(&self, id: &str) -> Result<String> {
        self.browser.text(&format!("#{id}")).await
    }

    async fn is_visible(&self, id: &str) -> Result<bool> {
        let script = "return document.getElementById(arguments[0]).checkVisibility();";
        Ok(self.browser.script(script, vec![json!(id)]).await? == json!(true))
    }

    async fn fragment(&self) -> Result<String> {
        let hash = self.browser.evaluate("location.hash").await?;
        Ok(hash
            .as_str()
            .unwrap_or_default()
            .trim_start_matches('#')
            .to_owned())
    }

    /// Ends the browser; see [`Browser::close`] for what must hold then.
    async fn close(self) -> Result<()> {
        self.browser.close().await
    }
}

/// A StatefulSet of the user's own, without Nodes.
fn stateful_set(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: shop\nspec:\n  replicas: \
         {replicas}\n  selector: {{matchLabels: {{app: shop}}}}\n  template:\n    metadata: \
         {{labels: {{app: shop}}}}\n    spec: {{containers: [{{name: shop, image: shop}}]}}\n"
    )
}

/// The selector of a button in the cluster: `Node/node-1`, `Pod/db-0/with`, `tool-cordon`.
fn key(name: &str) -> String {
    format!("[data-key=\"{name}\"]")
}
