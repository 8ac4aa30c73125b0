//! What ends a test in the browser with an error, though the page looks as it should.

use std::fs;

use anyhow::{Result, ensure};
use pps_e2e::browser::Browser;
use pps_e2e::scratch::Scratch;

/// Opens a page with each of the scripts in one browser. Returns how many errors the console has
/// after each, and what is wrong when the browser is closed.
async fn verdict(scripts: &[&str]) -> Result<(Vec<usize>, String)> {
    let folder = Scratch::folder("page")?;
    let browser = Browser::start_with(folder.path()).await?;
    let mut counts = Vec::new();
    for (index, script) in scripts.iter().enumerate() {
        let page = format!(
            "<!doctype html><html lang=\"en\"><link rel=\"icon\" \
             href=\"data:,\"><title>Page</title><p id=\"end\"></p><script type=\"module\" \
             src=\"{index}.js\"></script></html>"
        );
        fs::write(folder.path().join("index.html"), page)?;
        let end = "document.getElementById('end').textContent = 'done';";
        let script = format!("try {{ {script} }} finally {{ {end} }}");
        fs::write(folder.path().join(format!("{index}.js")), script)?;
        browser.open("").await?;
        browser.wait_for_text("#end", "done").await?;
        counts.push(
            browser
                .console()
                .await?
                .iter()
                .filter(|entry| entry.is_error())
                .count(),
        );
    }
    Ok((
        counts,
        browser
            .close()
            .await
            .map_or_else(|error| error.to_string(), |()| String::new()),
    ))
}

#[tokio::test]
async fn errors_that_nobody_sees_and_requests_to_others_fail_a_test() -> Result<()> {
    let (counts, wrong) = verdict(&["console.log('all is well');"]).await?;
    ensure!(counts == [0] && wrong.is_empty(), "{counts:?}: {wrong}");
    let scripts = [
        "console.error('broken');",
        "setTimeout(() => { throw new Error('broken'); }, 0); await new Promise((done) => \
         setTimeout(done, 200));",
        "await fetch('missing.json');",
        // Blocked by the security policy.
        "await fetch('https://example.com/').catch(() => null);",
        "new Image().src = 'http://127.0.0.1:9/'; await new Promise((done) => setTimeout(done, \
         200));",
        "document.body.setAttribute('style', 'color: red');",
        "eval('1');",
    ];
    let (counts, wrong) = verdict(&scripts).await?;
    let mut before = 0;
    for (script, count) in scripts.iter().zip(counts) {
        ensure!(count > before, "{script} is not noticed");
        before = count;
    }
    ensure!(wrong.starts_with("the console has errors"), "{wrong}");
    Ok(())
}
