//! What axe-core finds, and the page on narrow and wide screens.

use std::fs;

use anyhow::{Context, Result, ensure};
use pps_e2e::repository::repository_file;
use serde_json::{Value, json};

use super::{Page, key, stateful_set};

const WIDTHS: [u32; 3] = [390, 820, 1440];
const THEMES: [&str; 2] = ["light", "dark"];

const AXE: &str = "e2e-tests/fixtures/axe-core/axe.min.js";

/// All that axe-core finds wrong.
const CHECK: &str = r#"
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`);
"#;

async fn check(page: &Page) -> Result<Value> {
    page.browser.script(CHECK, Vec::new()).await
}

async fn load_axe(page: &Page) -> Result<()> {
    let axe = repository_file(AXE);
    let axe = fs::read_to_string(&axe).with_context(|| format!("cannot read {}", axe.display()))?;
    page.browser.script(&axe, Vec::new()).await.map(drop)
}

#[tokio::test]
async fn axe_finds_nothing_in_light_and_dark_at_three_widths() -> Result<()> {
    let page = Page::open("").await?;
    // A Pod that is Pending, problems in the text, a node that is selected, a link that cannot be opened, and
    // objects without Nodes.
    let own = stateful_set(300);
    for (fragment, objects, selected) in [
        ("example=local-disk&step=2", None, None),
        ("example=refused&step=1", None, Some("Node/node-1")),
        ("example=calico&step=2", None, Some("Workload/broker")),
        ("nonsense", None, Some("Node/node-6")),
        ("", Some(&own), None),
    ] {
        page.go(fragment).await?;
        if let Some(objects) = objects {
            page.fill("#objects", objects).await?;
        }
        if let Some(selected) = selected {
            page.click(&key(selected)).await?;
        }
        load_axe(&page).await?;
        for theme in THEMES {
            page.browser.prefer("prefers-color-scheme", theme).await?;
            for width in WIDTHS {
                page.browser.resize(width, 900).await?;
                let found = check(&page).await?;
                ensure!(found == json!([]), "#{fragment}, {theme}, {width} px: {found:#}");
                let inner = page.browser.evaluate("document.documentElement.scrollWidth").await?;
                ensure!(inner == json!(width), "#{fragment}, {width} px: the page is {inner} px wide");
            }
        }
    }
    page.close().await
}

/// A check that finds nothing in a bad page would find nothing in ours.
#[tokio::test]
async fn axe_finds_what_is_wrong() -> Result<()> {
    let page = Page::open("").await?;
    load_axe(&page).await?;
    page.browser.evaluate("document.getElementById('next').replaceChildren()").await?;
    page.browser.evaluate("document.getElementById('example-text').style.color = '#bbbbbb'").await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    let found = check(&page).await?.to_string();
    ensure!(found.contains("button-name") && found.contains("color-contrast"), "{found}");
    page.close().await
}

#[tokio::test]
async fn the_theme_can_be_chosen_and_is_kept() -> Result<()> {
    let page = Page::open("").await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    let back = "getComputedStyle(document.body).backgroundColor";
    let light = page.browser.evaluate(back).await?;
    page.browser.find("#theme").await?.select_by_value("dark").await?;
    let dark = page.browser.evaluate(back).await?;
    ensure!(light != dark, "both themes are {light}");
    page.go("").await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    ensure!(page.browser.evaluate(back).await? == dark, "the choice is lost");
    page.browser.find("#theme").await?.select_by_value("").await?;
    ensure!(page.browser.evaluate(back).await? == light, "the system's theme is not used");
    page.close().await
}
