//! What users type and paste.

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;
use serde_json::{Value, json};

use super::{Page, key, stateful_set};

pub(super) async fn are_checked_as_they_are_typed(page: &Page) -> Result<()> {
    play!(page;
        a_mistake_is_marked_in_its_line,
        garbage_is_answered_and_the_page_still_works,
        a_step_that_is_no_yaml_is_not_taken_and_can_be_corrected,
        a_changed_example_is_called_your_own,
        a_stateful_set_without_nodes_gets_some_and_its_own_steps,
        too_many_replicas_are_reported_in_their_line_before_any_step,
        half_a_character_is_answered,
        a_megabyte_can_be_pasted,
        markup_in_names_stays_text,
    );
    Ok(())
}

async fn a_mistake_is_marked_in_its_line(page: &Page) -> Result<()> {
    page.go("example=refused").await?;
    let lines = page
        .browser
        .evaluate("document.getElementById('objects').value.split('\\n')")
        .await?;
    let line_of = |part: &str| {
        let lines = lines.as_array().into_iter().flatten();
        lines
            .map(|line| line.as_str().unwrap_or_default())
            .position(|line| line.contains(part))
            .map(|index| index + 1)
    };
    let expected: Vec<String> = ["host name", "weight: 1000", "podIP"]
        .iter()
        .map(|part| format!("Line {}", line_of(part).unwrap_or_default()))
        .collect();
    let seen = page
        .browser
        .evaluate(
            "[...document.querySelectorAll('#objects-problems button')].map((line) => \
             line.innerText)",
        )
        .await?;
    ensure!(
        seen == json!(expected),
        "the lines are {expected:?}, the messages name {seen}"
    );
    let marked = page
        .browser
        .evaluate(
            "[...document.querySelectorAll('.number.error')].map((mark) => `Line \
             ${mark.innerText.slice(2)}`)",
        )
        .await?;
    ensure!(marked == json!(expected), "marked: {marked}");
    page.click("#objects-problems button").await?;
    let cursor = "(() => { const text = document.activeElement; return text.value.slice(0, \
                  text.selectionStart).split('\\n').length; })()";
    ensure!(
        page.browser.evaluate(cursor).await? == json!(line_of("host name")),
        "the cursor is elsewhere"
    );
    ensure!(
        page.text("objects-status").await? == "3 errors.",
        "the status says something else"
    );
    Ok(())
}

async fn garbage_is_answered_and_the_page_still_works(page: &Page) -> Result<()> {
    page.go("").await?;
    // The engine's own test has more.
    let garbage = [
        "\u{0}\u{1}\u{feff}\u{2028}".to_owned(),
        "kind: [Node]\nmetadata: 7\n---\nnull\n---\n- 1\n".into(),
        "apiVersion: v1\nkind: Node\nmetadata: {name: '<img src=x onerror=alert(1)>'}".into(),
        "x".repeat(30_000),
    ];
    for text in &garbage {
        page.fill("#objects", text).await?;
        let status = page.text("objects-status").await?;
        ensure!(
            !status.is_empty(),
            "no answer to {:?}",
            text.chars().take(40).collect::<String>()
        );
        ensure!(
            page.text("notice").await?.is_empty(),
            "the engine failed: {}",
            page.text("notice").await?
        );
        page.fill("#settings", text).await?;
        page.fill("#settings", "").await?;
        page.browser
            .evaluate(
                "document.getElementById('apply').value = document.getElementById('objects').value",
            )
            .await?;
        page.click("#apply-button").await?;
        ensure!(
            page.text("notice").await?.is_empty(),
            "the engine failed: {}",
            page.text("notice").await?
        );
    }
    ensure!(
        page.browser.evaluate("document.images.length").await? == json!(0),
        "a text became an element"
    );
    page.click("#reset").await?;
    page.click("#next").await?;
    ensure!(
        page.text("outcome")
            .await?
            .contains("db-1 returns to node-4"),
        "the page is broken"
    );
    Ok(())
}

async fn a_step_that_is_no_yaml_is_not_taken_and_can_be_corrected(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    let steps = page.text("timeline").await?;
    for (text, expected) in [("{{", "not valid YAML"), ("a: 1\n---\nb: 2\n", "document")] {
        page.fill("#apply", text).await?;
        page.click("#apply-button").await?;
        let problems = page.text("apply-problems").await?;
        ensure!(problems.contains(expected), "{text}: {problems}");
        let live = "document.querySelector('#apply-problems[aria-live=polite]') !== null";
        ensure!(
            page.browser.evaluate(live).await? == json!(true),
            "a screen reader does not hear it"
        );
        ensure!(
            page.text("timeline").await? == steps,
            "{text} became a step"
        );
        ensure!(
            page.text("stale").await?.is_empty(),
            "{}",
            page.text("stale").await?
        );
    }
    page.click("#apply-node").await?;
    page.click("#apply-button").await?;
    ensure!(
        page.text("cluster").await?.contains("node-7"),
        "the Node did not join"
    );
    page.choose("forget").await?;
    let left = "document.getElementById('apply').value";
    ensure!(
        page.browser.evaluate(left).await? == json!(""),
        "the text stays in another example"
    );
    Ok(())
}

async fn a_changed_example_is_called_your_own(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    page.fill("#settings", "onLookupFailure: accept").await?;
    ensure!(
        page.text("example-title").await? == "Your own scenario",
        "it is called the example"
    );
    ensure!(
        page.text("example-text")
            .await?
            .contains("You have changed the example"),
        "nothing says so"
    );
    page.click("#reset").await?;
    ensure!(
        page.text("example-title").await?.starts_with("A database"),
        "the example is not restored"
    );
    page.fill("#objects", "").await?;
    ensure!(
        page.text("cluster").await?.contains("choose an example"),
        "nothing says what to write"
    );
    Ok(())
}

async fn a_stateful_set_without_nodes_gets_some_and_its_own_steps(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=2").await?;
    ensure!(!page.is_visible("added").await?, "the example has Nodes");
    page.fill("#objects", &stateful_set(3)).await?;
    ensure!(
        page.is_visible("added").await?,
        "nothing says where the Nodes come from"
    );
    let added = page.text("added").await?;
    ensure!(
        added.contains("the page added six in three zones"),
        "{added}"
    );
    let cluster = page.text("cluster").await?;
    ensure!(
        ["Zone a", "Zone c", "node-6"]
            .iter()
            .all(|part| cluster.contains(part)),
        "{cluster}"
    );
    let steps = page.text("timeline").await?;
    ensure!(
        steps.contains("Roll out") && steps.contains("Delete Pod shop-0"),
        "{steps}"
    );
    page.click("#next").await?;
    ensure!(
        page.text("outcome")
            .await?
            .contains("shop-0 starts on node-1."),
        "the Pods do not start"
    );
    ensure!(
        page.is_visible("same").await?,
        "nothing says why both columns show the same"
    );

    // The link has the text, and the page adds the Nodes again.
    let seen = page.seen().await?;
    let fragment = page.fragment().await?;
    page.go(&fragment).await?;
    ensure!(
        page.seen().await? == seen,
        "the link shows {:#}",
        page.seen().await?
    );
    ensure!(
        page.is_visible("added").await?,
        "nothing says where the Nodes come from"
    );

    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: mine}\n";
    page.fill("#objects", &format!("{}---\n{node}", stateful_set(3)))
        .await?;
    ensure!(
        !page.is_visible("added").await?,
        "Nodes are added to those of the user"
    );
    ensure!(
        page.text("outcome")
            .await?
            .contains("shop-0 starts on mine."),
        "the user's Node is not used"
    );
    Ok(())
}

async fn too_many_replicas_are_reported_in_their_line_before_any_step(page: &Page) -> Result<()> {
    let expected = "want 251 Pods: at most 250 are simulated; use fewer replicas";
    page.go("").await?;
    page.fill("#objects", &stateful_set(251)).await?;
    for (place, line) in [("objects-problems", "Line 6"), ("wrong", "Objects")] {
        let said = page.text(place).await?;
        ensure!(
            said.contains(expected) && said.contains(line),
            "{place}: {said}"
        );
    }
    let marked = page
        .browser
        .evaluate("[...document.querySelectorAll('.number.error')].map((mark) => mark.innerText)")
        .await?;
    ensure!(marked == json!(["✗ 6"]), "marked: {marked}");
    page.click("#wrong a").await?;
    ensure!(
        page.browser.evaluate("document.activeElement.id").await? == json!("objects"),
        "the link leads elsewhere"
    );
    page.fill("#objects", &stateful_set(250)).await?;
    ensure!(
        !page.is_visible("wrong").await?,
        "{}",
        page.text("wrong").await?
    );

    page.fill("#apply", &stateful_set(251)).await?;
    let steps = page.text("timeline").await?;
    page.click("#apply-button").await?;
    let problems = page.text("apply-problems").await?;
    ensure!(
        problems.contains(expected) && problems.contains("Line 6"),
        "{problems}"
    );
    ensure!(page.text("timeline").await? == steps, "it became a step");
    Ok(())
}

/// Half of a surrogate pair, which the driver cannot send.
async fn half_a_character_is_answered(page: &Page) -> Result<()> {
    page.go("").await?;
    let script = "const text = document.getElementById('objects'); text.value = 'kind: \\ud800'; \
                  text.dispatchEvent(new InputEvent('input'));";
    page.browser.script(script, Vec::new()).await?;
    page.settle().await?;
    ensure!(
        page.text("notice").await?.is_empty(),
        "{}",
        page.text("notice").await?
    );
    Ok(())
}

async fn a_megabyte_can_be_pasted(page: &Page) -> Result<()> {
    page.go("").await?;
    let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    page.browser
        .devtools("Browser.grantPermissions", permissions)
        .await?;
    let script = r#"
        const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n";
        await navigator.clipboard.writeText(object.repeat(20_000).slice(0, 1 << 20));
        const text = document.getElementById("objects");
        text.focus();
        text.select();
    "#;
    page.browser.script(script, Vec::new()).await?;
    let paste = format!("{}v{}", char::from(Key::Control), char::from(Key::Null));
    page.browser.keys(&paste).await?;
    page.browser
        .wait_until("document.getElementById('objects').value.length === 1 << 20")
        .await?;
    page.settle().await?;
    let status = page.text("objects-status").await?;
    ensure!(status.contains("error"), "{status}");
    let lines: Value = page
        .browser
        .evaluate("document.querySelectorAll('.number').length")
        .await?;
    ensure!(lines.as_u64() < Some(100), "all lines are drawn: {lines}");
    page.click("#copy").await?;
    page.browser
        .wait_for_text("#copied", "too long for a link")
        .await?;
    page.click("#reset").await?;
    ensure!(
        page.text("objects-status").await? == "No problems found.",
        "the example is not restored"
    );
    Ok(())
}

/// A name is text, whatever it contains.
async fn markup_in_names_stays_text(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    page.click(&key("Node/node-1")).await?;
    page.fill(&key("label-key"), "<b>x</b>").await?;
    page.fill(&key("label-value"), "\"><script>alert(1)</script>")
        .await?;
    page.click(&key("tool-label")).await?;
    ensure!(
        page.text("timeline").await?.contains("<b>x</b>"),
        "the label's text is not shown"
    );
    ensure!(
        page.browser
            .evaluate("document.querySelectorAll('#timeline b, body script').length")
            .await?
            == json!(0),
        "a text became an element"
    );
    Ok(())
}
