//! The README's picture of the playground.

use std::{env, fs};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pps_e2e::repository::repository_file;
use serde_json::json;

use super::Page;

const PICTURE: &str = "docs/images/playground.png";
const WIDTH: u32 = 900;
const MOST_BYTES: usize = 150_000;

/// Two Pods have started again: with PPS one has its data and one waits for it, without PPS both
/// have lost it.
const STATE: &str = "example=local-disk&step=2";

/// What happened, and the cluster: top and height.
const CLIP: &str = r#"(() => {
    const top = Math.floor(document.querySelector(".outcome").getBoundingClientRect().top) - 8;
    return [top, Math.ceil(document.getElementById("cluster").getBoundingClientRect().bottom) + 8 - top];
})()"#;

async fn draw() -> Result<Vec<u8>> {
    let page = Page::open(STATE).await?;
    page.browser.resize(WIDTH, 2000).await?;
    let features = json!([
        {"name": "prefers-color-scheme", "value": "light"},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]);
    page.browser
        .devtools("Emulation.setEmulatedMedia", json!({"features": features}))
        .await?;
    let clip = page.browser.evaluate(CLIP).await?;
    let clip = json!({"x": 0, "y": clip[0], "width": WIDTH, "height": clip[1], "scale": 1});
    let answer = page
        .browser
        .devtools(
            "Page.captureScreenshot",
            json!({"format": "png", "clip": clip}),
        )
        .await?;
    page.close().await?;
    BASE64_STANDARD
        .decode(answer["data"].as_str().unwrap_or_default())
        .context("Chromium sent no picture")
}

/// Width and height, from the file's header.
fn size(png: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    (png.get(..8)? == b"\x89PNG\r\n\x1a\n").then_some((number(16)?, number(20)?))
}

/// `UPDATE=1` draws it again. Fonts and browsers differ, so pixels are not compared.
#[tokio::test]
async fn the_readme_has_a_picture_of_the_playground() -> Result<()> {
    let drawn = draw().await?;
    let file = repository_file(PICTURE);
    if env::var("UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&file, &drawn).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let kept = fs::read(&file)
        .with_context(|| format!("there is no {PICTURE}: make playground-picture draws it"))?;
    for (what, picture) in [("drawn", &drawn), ("kept", &kept)] {
        let (width, height) =
            size(picture).with_context(|| format!("the picture that is {what} is no PNG"))?;
        ensure!(
            width == WIDTH && (600..1000).contains(&height),
            "the picture that is {what} has {width} × {height}"
        );
        ensure!(
            picture.len() < MOST_BYTES,
            "the picture that is {what} has {} bytes",
            picture.len()
        );
    }
    let page = fs::read_to_string(repository_file("docs/playground.md"))?;
    let shown = PICTURE.replace("docs/", "");
    ensure!(
        page.contains(&format!("({shown})")),
        "docs/playground.md does not show {PICTURE}"
    );
    Ok(())
}
