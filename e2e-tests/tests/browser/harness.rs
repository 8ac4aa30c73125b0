//! What ends a test in the browser with an error, though the page looks as it should.

use std::fs;

use anyhow::{Result, ensure};
use pps_e2e::browser::Browser;
use pps_e2e::scratch::Scratch;

/// A page with a script, and what is wrong with it when the browser is closed.
async fn verdict(script: &str) -> Result<String> {
    let folder = Scratch::folder("page")?;
    let page = "<!doctype html><html lang=\"en\"><link rel=\"icon\" href=\"data:,\"><title>Page</title><p id=\"end\"></p>\
        <script type=\"module\" src=\"page.js\"></script></html>";
    fs::write(folder.path().join("index.html"), page)?;
    let script =
        format!("try {{ {script} }} finally {{ document.getElementById('end').textContent = 'done'; }}");
    fs::write(folder.path().join("page.js"), script)?;
    let browser = Browser::start_with(folder.path()).await?;
    browser.open("").await?;
    browser.wait_for_text("#end", "done").await?;
    Ok(browser.close().await.map_or_else(|error| error.to_string(), |()| "nothing is wrong".to_owned()))
}

#[tokio::test]
async fn errors_that_nobody_sees_and_requests_to_others_fail_a_test() -> Result<()> {
    for (script, expected) in [
        ("console.log('all is well');", "nothing is wrong"),
        ("console.error('broken');", "the console has errors"),
        (
            "setTimeout(() => { throw new Error('broken'); }, 0); await new Promise((done) => setTimeout(done, 200));",
            "the console has errors",
        ),
        ("await fetch('missing.json');", "the console has errors"),
        // Blocked by the security policy.
        ("await fetch('https://example.com/').catch(() => null);", "the console has errors"),
        (
            "new Image().src = 'http://127.0.0.1:9/'; await new Promise((done) => setTimeout(done, 200));",
            "the console has errors",
        ),
        ("document.body.setAttribute('style', 'color: red');", "the console has errors"),
        ("eval('1');", "the console has errors"),
    ] {
        let verdict = verdict(script).await?;
        ensure!(verdict.starts_with(expected), "{script}: {verdict}");
    }
    Ok(())
}
