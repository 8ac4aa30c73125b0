//! What axe-core finds, and the page on narrow and wide screens.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pps_e2e::repository::repository_file;
use serde_json::{Value, json};
use tokio::{fs, process::Command, sync::OnceCell};

use super::{Page, key, stateful_set};

/// Contrast depends on the theme, and layout on the width: each state is checked in both themes
/// and, in turn, at two of three widths. At 320 pixels a page must still fit (WCAG 1.4.10).
const VIEWS: [[(&str, u32); 2]; 3] = [
    [("light", 320), ("dark", 1440)],
    [("dark", 820), ("light", 1440)],
    [("dark", 320), ("light", 820)],
];

/// All that axe-core finds wrong, and what it cannot decide, except for signs in place of words.
/// Some of its rules are off unless asked for.
const CHECK: &str = r#"
    const asked = ["target-size", "label-content-name-mismatch", "focus-order-semantics", "td-has-header"];
    const rules = Object.fromEntries(asked.map((id) => [id, { enabled: true }]));
    const { violations, incomplete } = await axe.run(document, { resultTypes: ["violations", "incomplete"], rules });
    const undecided = incomplete.filter(({ id }) => id !== "color-contrast" && id !== "label-content-name-mismatch");
    return [...violations, ...undecided].map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`);
"#;

async fn check(page: &Page) -> Result<Value> {
    page.browser.script(CHECK, Vec::new()).await
}

async fn load_axe(page: &Page) -> Result<()> {
    static AXE: OnceCell<String> = OnceCell::const_new();
    // The page has it until it is loaded again.
    if page.browser.evaluate("'axe' in window").await? == json!(true) {
        return Ok(());
    }
    let axe = AXE.get_or_try_init(read_axe).await?;
    page.browser.script(axe, Vec::new()).await.map(drop)
}

/// The text of axe-core, which `make browser` has installed, or which is installed now.
async fn read_axe() -> Result<String> {
    let script = repository_file("hack/axe-core.sh");
    let output = Command::new(&script)
        .output()
        .await
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(
        output.status.success(),
        "{} fails: {}",
        script.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let file = Path::new(String::from_utf8(output.stdout)?.trim()).join("axe.min.js");
    fs::read_to_string(&file)
        .await
        .with_context(|| format!("cannot read {}", file.display()))
}

pub(super) async fn of_the_page(page: &Page) -> Result<()> {
    play!(page; axe_finds_nothing, axe_finds_what_is_wrong, the_theme_can_be_chosen_and_is_kept);
    Ok(())
}

async fn axe_finds_nothing(page: &Page) -> Result<()> {
    // A Pod that is Pending, problems in the text, a node that is selected, a link that cannot be
    // opened, and objects without Nodes.
    let own = stateful_set(300);
    let states = [
        ("example=local-disk&step=2", None, None),
        ("example=refused&step=1", None, Some("Node/node-1")),
        ("example=calico&step=2", None, Some("Workload/broker")),
        ("example=calico&step=4", None, Some("Pod/broker-1/with")),
        ("nonsense", None, Some("Node/node-6")),
        ("", Some(&own), None),
    ];
    for ((fragment, objects, selected), views) in states.into_iter().zip(VIEWS.iter().cycle()) {
        page.go(fragment).await?;
        if let Some(objects) = objects {
            page.fill("#objects", objects).await?;
        }
        if let Some(selected) = selected {
            page.click(&key(selected)).await?;
        }
        page.browser
            .evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            .await?;
        load_axe(page).await?;
        for (theme, width) in views {
            page.browser.prefer("prefers-color-scheme", theme).await?;
            page.browser.resize(*width, 900).await?;
            let found = check(page).await?;
            ensure!(
                found == json!([]),
                "#{fragment}, {theme}, {width} px: {found:#}"
            );
            let inner = page
                .browser
                .evaluate("document.documentElement.scrollWidth")
                .await?;
            ensure!(
                inner == json!(width),
                "#{fragment}, {width} px: the page is {inner} px wide"
            );
        }
    }
    Ok(())
}

/// A check that finds nothing in a bad page would find nothing in ours.
async fn axe_finds_what_is_wrong(page: &Page) -> Result<()> {
    page.load("").await?;
    load_axe(page).await?;
    page.browser
        .evaluate("document.getElementById('next').replaceChildren()")
        .await?;
    page.browser
        .evaluate("document.getElementById('example-text').style.color = '#bbbbbb'")
        .await?;
    page.browser
        .evaluate("document.getElementById('cluster').setAttribute('aria-hidden', '')")
        .await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    let found = check(page).await?.to_string();
    for rule in ["button-name", "color-contrast", "aria-valid-attr-value"] {
        ensure!(found.contains(rule), "{rule} is not in {found}");
    }
    Ok(())
}

async fn the_theme_can_be_chosen_and_is_kept(page: &Page) -> Result<()> {
    page.load("").await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    let back = "getComputedStyle(document.body).backgroundColor";
    let light = page.browser.evaluate(back).await?;
    page.browser
        .find("#theme")
        .await?
        .select_by_value("dark")
        .await?;
    let dark = page.browser.evaluate(back).await?;
    ensure!(light != dark, "both themes are {light}");
    page.go("").await?;
    page.browser.prefer("prefers-color-scheme", "light").await?;
    ensure!(
        page.browser.evaluate(back).await? == dark,
        "the choice is lost"
    );
    page.browser
        .find("#theme")
        .await?
        .select_by_value("")
        .await?;
    ensure!(
        page.browser.evaluate(back).await? == light,
        "the system's theme is not used"
    );
    Ok(())
}
