//! The site in a browser: search, every page, and the examples that open the playground.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pps_e2e::browser::{Browser, playground};
use pps_e2e::repository::repository_file;
use pps_e2e::scratch::Scratch;
use pps_site::{Options, Report, build};
use serde_json::Value;

use super::page::{IDLE, follow};

/// The site, built from the documents of this checkout.
fn site(folder: &Path) -> Result<Report> {
    build(&Options {
        source: repository_file(""),
        output: folder.to_owned(),
        playground: Some(playground()),
        repository: env!("CARGO_PKG_REPOSITORY").to_owned(),
        revision: "HEAD".to_owned(),
        version_name: "main".to_owned(),
        older: Vec::new(),
    })
}

/// The addresses of a page's links that a selector finds.
async fn links(browser: &Browser, selector: &str) -> Result<Vec<String>> {
    let script = "return [...document.querySelectorAll(arguments[0])].map((link) => link.href)";
    let links = browser.script(script, vec![selector.into()]).await?;
    Ok(serde_json::from_value(links)?)
}

/// Whether a page of the site has a title, and the addresses of its examples.
const PAGE: &str = r#"({
    title: document.querySelector("main h1") !== null,
    examples: [...document.querySelectorAll("a.open-in-playground")].map((link) => link.href),
})"#;

/// The path on the server, with the fragment.
fn path<'a>(browser: &Browser, url: &'a str) -> &'a str {
    url.strip_prefix(&browser.url("")).unwrap_or(url)
}

#[tokio::test]
async fn documents_are_found_and_each_of_their_examples_opens_in_the_playground() -> Result<()> {
    let folder = Scratch::folder("site")?;
    let report = site(folder.path())?;
    let browser = Browser::start_with(folder.path()).await?;

    browser.open("index.html").await?;
    browser.click("#mdbook-search-toggle").await?;
    browser
        .type_into("#mdbook-searchbar", "required topology")
        .await?;
    browser
        .wait_for_text("#mdbook-searchresults", "Required topologies")
        .await?;

    let pages = links(&browser, "#mdbook-sidebar ol.chapter a[href]").await?;
    let mut examples = Vec::new();
    for page in pages.iter().filter(|page| !page.contains('#')) {
        // `close` sees what each page writes into the console and asks for.
        browser.open(path(&browser, page)).await?;
        let found = browser.evaluate(PAGE).await?;
        ensure!(found["title"] == true, "{page} has no title");
        examples.extend(serde_json::from_value::<Vec<String>>(
            found["examples"].clone(),
        )?);
    }
    ensure!(
        examples.len() == report.examples && report.examples > 0,
        "{} of {report:?}",
        examples.len()
    );

    browser.open("playground/index.html").await?;
    let documents = links(&browser, "#documents").await?;
    ensure!(
        documents == [browser.url("index.html")],
        "the playground's documents are at {documents:?}"
    );

    for (index, example) in examples.iter().enumerate() {
        let link = path(&browser, example);
        let fragment = link
            .strip_prefix("playground/index.html#")
            .with_context(|| example.clone())?;
        // To load the page again for each takes long.
        if index > 0 && follow(&browser, fragment).await? {
            browser.wait_until(IDLE).await?;
        } else {
            browser.open(link).await?;
        }
        browser
            .wait_for_text("#cluster", "Running")
            .await
            .with_context(|| example.clone())?;
        let notice = browser
            .evaluate("document.querySelector('#notice').hidden")
            .await?;
        ensure!(
            notice == Value::Bool(true),
            "{example}: {}",
            browser.text("#notice").await?
        );
        browser.wait_for_text("#next", "Uncordon").await?;
    }
    browser.close().await
}
