//! The page without a mouse.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use fantoccini::key::Key;
use serde_json::json;

use super::{Page, key};

/// How many Tabs are sent at once: a command for each takes longer than all that the page does.
const AT_ONCE: usize = 40;
/// With so many the focus passes everything in the page.
const ROUNDS: usize = 5;

/// Where the focus is, and whether that can be seen.
const FOCUS: &str = r#"(() => {
    const focused = document.activeElement;
    const outlined = [focused, focused.parentElement].some((element) => {
        const style = element === null ? null : getComputedStyle(element);
        return style !== null && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    });
    return [focused.id || focused.dataset.key || focused.tagName, outlined];
})()"#;

/// What a user can act on, by the same names.
const CONTROLS: &str = r#"[...document.querySelectorAll("a[href], button, select, textarea, input, summary, [tabindex='0']")]
    .filter((element) => element.checkVisibility())
    .map((element) => element.id || element.dataset.key || element.tagName)"#;

/// The page notes where each Tab leads, and the focus stays on the element that is wanted.
const WATCH: &str = r#"
    window.stops = [];
    window.wanted = arguments[0];
    if ("focused" in window) return;
    window.focused = () => FOCUS;
    addEventListener("keyup", ({ key }) => { if (key === "Tab") stops.push(focused()); }, true);
    addEventListener("keydown", (event) => {
        if (event.key !== "Tab" || focused()[0] !== wanted) return;
        event.preventDefault();
        event.stopImmediatePropagation();
    }, true);
"#;

async fn focus(page: &Page) -> Result<(String, bool)> {
    Ok(serde_json::from_value(page.browser.evaluate(FOCUS).await?)?)
}

/// Presses Tab, until the focus is on an element with this id or key if there is one. Returns where
/// it was.
async fn tab(page: &Page, wanted: Option<&str>) -> Result<Vec<(String, bool)>> {
    page.browser
        .script(&WATCH.replace("FOCUS", FOCUS), vec![json!(wanted)])
        .await?;
    page.browser
        .keys(&char::from(Key::Tab).to_string().repeat(AT_ONCE))
        .await?;
    let stops = page
        .browser
        .script("window.wanted = null; return stops;", Vec::new())
        .await?;
    Ok(serde_json::from_value(stops)?)
}

async fn tab_to(page: &Page, name: &str) -> Result<()> {
    for _ in 0..ROUNDS {
        tab(page, Some(name)).await?;
        let (focused, is_seen) = focus(page).await?;
        if focused == name {
            ensure!(is_seen, "the focus on {name} cannot be seen");
            return Ok(());
        }
    }
    bail!("Tab does not lead to {name}")
}

async fn press(page: &Page, pressed: Key) -> Result<()> {
    page.browser.press(pressed).await?;
    page.settle().await
}

pub(super) async fn is_enough(page: &Page) -> Result<()> {
    play!(page;
        the_first_stop_leads_to_the_cluster,
        an_example_can_be_played_with_the_keyboard_alone,
        escape_closes_a_toolbar_and_leads_back_to_what_it_was_about,
        the_eviction_of_pending_pods_can_be_switched_and_is_part_of_the_link,
        tab_reaches_every_control_and_the_focus_can_be_seen,
        what_moves_stands_still_for_users_who_ask_for_it,
    );
    Ok(())
}

async fn the_first_stop_leads_to_the_cluster(page: &Page) -> Result<()> {
    page.load("example=forget&step=4").await?;
    page.browser.press(Key::Tab).await?;
    press(page, Key::Enter).await?;
    ensure!(
        focus(page).await? == ("cluster-title".to_owned(), true),
        "{:?}",
        focus(page).await?
    );
    ensure!(
        page.fragment().await? == "example=forget&step=4",
        "the link is another one"
    );
    Ok(())
}

async fn an_example_can_be_played_with_the_keyboard_alone(page: &Page) -> Result<()> {
    page.go("").await?;
    tab_to(page, "example").await?;
    press(page, Key::Down).await?;
    ensure!(
        page.text("example-title")
            .await?
            .starts_with("An address that clients know"),
        "the arrow does not choose an example"
    );
    tab_to(page, "next").await?;
    for expected in [
        "broker-1 starts on node-3",
        "broker-0 starts on node-1",
        "broker-1 is gone.",
        "broker-1 returns to node-3, with its IP address.",
    ] {
        press(page, Key::Enter).await?;
        ensure!(
            page.text("outcome").await?.contains(expected),
            "{}",
            page.text("outcome").await?
        );
        ensure!(
            page.browser
                .evaluate("document.getElementById('live').textContent")
                .await?
                .as_str()
                .is_some_and(|said| said.contains("With PPS:")),
            "a screen reader hears nothing"
        );
        ensure!(focus(page).await?.0 == "next", "the focus left the button");
    }
    press(page, Key::Enter).await?;

    // A node, with what can be done to it in the next stops.
    tab_to(page, "Node/node-3").await?;
    press(page, Key::Enter).await?;
    ensure!(
        focus(page).await?.0 == "Node/node-3",
        "the focus left the node"
    );
    page.browser.press(Key::Tab).await?;
    while focus(page).await?.0.starts_with("Pod/") {
        page.browser.press(Key::Tab).await?;
    }
    ensure!(
        focus(page).await?.0 == "tool-cordon",
        "{:?} follows the node",
        focus(page).await?
    );
    press(page, Key::Space).await?;
    ensure!(
        focus(page).await?.0 == "tool-cordon",
        "the focus left the button"
    );
    ensure!(
        page.browser.text(&key("tool-cordon")).await? == "Uncordon",
        "the node is not cordoned"
    );

    // A Pod of that node.
    tab_to(page, "Pod/broker-1/without").await?;
    press(page, Key::Space).await?;
    tab_to(page, "tool-pod").await?;
    press(page, Key::Enter).await?;
    ensure!(
        page.text("outcome")
            .await?
            .contains("broker-1 starts on node-4"),
        "{}",
        page.text("outcome").await?
    );
    tab_to(page, "tool-details").await?;
    press(page, Key::Enter).await?;
    ensure!(
        page.text("details").await?.contains("without PPS"),
        "the details are of another Pod"
    );

    // Text fields are left with Tab, too.
    tab_to(page, "objects").await?;
    page.browser.keys("# typed").await?;
    page.settle().await?;
    tab_to(page, "settings").await?;
    tab_to(page, "apply-node").await?;
    Ok(())
}

async fn escape_closes_a_toolbar_and_leads_back_to_what_it_was_about(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    tab_to(page, "Node/node-3").await?;
    press(page, Key::Enter).await?;
    tab_to(page, "tool-drain").await?;
    press(page, Key::Escape).await?;
    ensure!(
        focus(page).await? == ("Node/node-3".to_owned(), true),
        "{:?}",
        focus(page).await?
    );
    let toolbars = page
        .browser
        .evaluate("document.querySelectorAll('.toolbar').length")
        .await?;
    ensure!(toolbars == json!(0), "the toolbar is still open");
    Ok(())
}

/// The sidecar's flag decides whether a Pod that waits for a deleted node waits on.
async fn the_eviction_of_pending_pods_can_be_switched_and_is_part_of_the_link(
    page: &Page,
) -> Result<()> {
    page.go("example=forget&step=4").await?;
    let evicts = "document.getElementById('evict').checked";
    ensure!(
        page.browser.evaluate(evicts).await? == json!(true),
        "the example sets the flag"
    );
    tab_to(page, "evict").await?;
    press(page, Key::Space).await?;
    ensure!(
        page.browser.evaluate(evicts).await? == json!(false),
        "the flag is still set"
    );
    ensure!(
        page.text("cluster").await?.contains("Pending"),
        "db-1 does not wait"
    );
    let seen = page.seen().await?;
    let fragment = page.fragment().await?;
    page.go("").await?;
    page.go(&fragment).await?;
    ensure!(
        page.seen().await? == seen,
        "the link shows {:#}",
        page.seen().await?
    );
    tab_to(page, "evict").await?;
    press(page, Key::Space).await?;
    ensure!(
        !page.text("cluster").await?.contains("Pending"),
        "db-1 is not evicted"
    );
    Ok(())
}

async fn tab_reaches_every_control_and_the_focus_can_be_seen(page: &Page) -> Result<()> {
    page.go("example=refused&step=2").await?;
    page.click(&key("Node/node-2")).await?;
    // So that the first Tab begins at the top.
    page.browser
        .evaluate("document.activeElement.blur()")
        .await?;
    let controls: BTreeSet<String> =
        serde_json::from_value(page.browser.evaluate(CONTROLS).await?)?;
    ensure!(
        controls.len() > 40,
        "the page has only {} controls",
        controls.len()
    );
    let mut reached = BTreeSet::new();
    for _ in 0..ROUNDS {
        for (name, is_seen) in tab(page, None).await? {
            ensure!(
                is_seen || name == "BODY",
                "the focus on {name} cannot be seen"
            );
            reached.insert(name);
        }
        if reached.is_superset(&controls) {
            break;
        }
    }
    let missed: Vec<&String> = controls.difference(&reached).collect();
    ensure!(missed.is_empty(), "Tab does not reach {missed:?}");
    Ok(())
}

async fn what_moves_stands_still_for_users_who_ask_for_it(page: &Page) -> Result<()> {
    page.load("example=local-disk").await?;
    let animated = "document.getAnimations().length > 0";
    page.click("#next").await?;
    page.browser
        .prefer("prefers-reduced-motion", "no-preference")
        .await?;
    page.click("#next").await?;
    ensure!(
        page.browser
            .evaluate("getComputedStyle(document.querySelector('.pod.changed')).animationName")
            .await?
            == json!("arrive"),
        "nothing moves at all"
    );
    page.browser
        .prefer("prefers-reduced-motion", "reduce")
        .await?;
    ensure!(
        page.browser.evaluate(animated).await? == json!(false),
        "something moves"
    );
    Ok(())
}
