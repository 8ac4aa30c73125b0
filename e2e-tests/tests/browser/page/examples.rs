//! Each example, by clicking.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Page, key};

const NOTHING: &str = "No Pod starts or stops.";

/// What a step says, with PPS and without.
type Said = (&'static str, &'static str);

/// What the steps of each example say.
const EXAMPLES: [(&str, &[Said]); 10] = [
    (
        "first-steps",
        &[
            ("db-1 starts on node-3.", "db-1 starts on node-3."),
            ("db-1 returns to node-3", "by chance: 1 other node has the same score."),
            (NOTHING, NOTHING),
            ("db-1 starts on node-4, in the same zone (before: node-3)", "db-1 starts on"),
            (NOTHING, NOTHING),
            (
                "db-1 stays Pending: no node can take it.",
                "db-1 starts on node-2, in another zone (before: node-4)",
            ),
            ("db-1 returns to node-4", NOTHING),
        ],
    ),
    (
        "local-disk",
        &[
            ("db-0 starts on node-1.", "db-0 starts on node-1."),
            ("db-0 returns to node-1 with a new IP address.", "by chance: 1 other node has the same score."),
            (NOTHING, NOTHING),
            ("db-0 stays Pending", "db-0 starts on node-2, in the same zone (before: node-1)"),
            ("db-0 returns to node-1", NOTHING),
        ],
    ),
    (
        "zone-pin",
        &[
            ("queue-0 starts on node-1.", "queue-0 starts on node-1."),
            ("queue-0 starts on node-2, in the same zone (before: node-1)", "queue-0 starts on"),
            ("queue-0 stays Pending", "queue-0 starts on node-4, in another zone (before: node-2)"),
            ("queue-0 returns to node-2", NOTHING),
        ],
    ),
    (
        "preferred",
        &[
            ("cache-1 starts on node-3.", "cache-1 starts on node-3."),
            (
                "cache-1 returns to node-3 with a new IP address.",
                "by chance: 1 other node has the same score.",
            ),
            (NOTHING, NOTHING),
            ("cache-1 starts on node-4, in the same zone (before: node-3)", "cache-1 starts on node-4"),
            ("cache-0 starts on node-2, in the same zone (before: node-1)", "cache-0 starts on"),
            ("cache-0 starts on node-6, in another zone (before: node-2)", "cache-0 starts on node-6"),
        ],
    ),
    (
        "pending",
        &[
            ("db-0 starts on node-1.", "db-0 starts on node-1."),
            (NOTHING, NOTHING),
            ("db-0 stays Pending", "db-0 starts on node-5, in another zone (before: node-1)"),
            ("db-0 starts on node-2, in the same zone (before: node-1)", NOTHING),
        ],
    ),
    (
        "kube-ovn",
        &[
            ("cache-0 starts on node-1.", "cache-0 starts on node-1."),
            ("with its IP address", "with a new IP address"),
            ("cache-2 is gone.", "cache-2 is gone."),
            ("cache-2 returns to node-3 with its IP address.", "with a new IP address"),
        ],
    ),
    (
        "calico",
        &[
            ("db-1 starts on node-3.", "db-1 starts on node-3."),
            ("db-1 returns to node-3 with its IP address.", "with a new IP address"),
            ("db-2 is gone.", "db-2 is gone."),
            ("db-2 returns to node-5 with a new IP address.", "with a new IP address"),
        ],
    ),
    (
        "forget",
        &[
            ("db-0 starts on node-1.", "db-0 starts on node-1."),
            ("db-0 stays Pending", "db-0 starts on node-2, in the same zone (before: node-1)"),
            ("db-0 starts on node-2, in the same zone (before: node-1)", NOTHING),
        ],
    ),
    (
        "openkruise",
        &[
            ("echoserver-1 starts on node-2.", "echoserver-1 starts on node-2."),
            (
                "echoserver-1 returns to node-2 with a new IP address.",
                "by chance: 3 other nodes have the same score.",
            ),
            (NOTHING, NOTHING),
            (NOTHING, NOTHING),
            ("echoserver-1 starts on node-1, in the same zone (before: node-2)", "in another zone"),
        ],
    ),
    (
        "refused",
        &[
            ("db-0 starts on node-1.", "db-0 starts on node-1."),
            (NOTHING, NOTHING),
            ("db-0 returns to node-1 with its IP address.", "with a new IP address"),
        ],
    ),
];

#[tokio::test]
async fn examples_can_be_played_and_changed() -> Result<()> {
    in_one_browser!(
        each_example_shows_what_its_text_says,
        the_details_follow_the_pods_that_a_step_moves,
        a_step_can_be_undone_repeated_and_removed,
        back_returns_to_what_was_changed_before_another_example_was_chosen,
        a_notice_about_a_link_goes_with_the_next_change,
        a_new_action_takes_the_place_of_one_that_was_undone,
        all_steps_can_be_played,
        nodes_pods_and_workloads_can_be_acted_on,
        the_settings_are_those_of_the_policy,
    )
}

async fn each_example_shows_what_its_text_says(page: &Page) -> Result<()> {
    page.go("").await?;
    let offered = page
        .browser
        .evaluate(
            "[...document.querySelectorAll('#example option:not([disabled])')].map((option) => option.value)",
        )
        .await?;
    ensure!(offered == json!(EXAMPLES.map(|(name, _)| name)), "the page offers {offered}");
    for (name, steps) in EXAMPLES {
        page.choose(name).await?;
        for (index, (with, without)) in steps.iter().enumerate() {
            page.click("#next").await?;
            for (side, expected) in [("with", with), ("without", without)] {
                let said = page.browser.text(&format!("#outcome .{side}")).await?;
                ensure!(said.contains(expected), "{name}, step {}, {side} PPS: {said}", index + 1);
            }
            let caption = page.text("caption").await?;
            ensure!(!caption.is_empty(), "{name}, step {} has no text", index + 1);
        }
        ensure!(page.text("next").await? == "No step left", "{name} has more steps");
        let by_clicking = page.seen().await?;
        page.go(&format!("example={name}&step={}", steps.len())).await?;
        ensure!(page.seen().await? == by_clicking, "{name}: the link to its end shows something else");
    }
    Ok(())
}

async fn the_details_follow_the_pods_that_a_step_moves(page: &Page) -> Result<()> {
    page.go("example=preferred&step=4").await?;
    ensure!(page.text("details").await?.starts_with("Pod cache-1, with PPS"), "the deleted Pod is not shown");
    for _ in ["the node is drained", "the zone is lost"] {
        page.click("#next").await?;
        let details = page.text("details").await?;
        ensure!(details.starts_with("Pod cache-0, with PPS"), "{details}");
    }
    Ok(())
}

async fn a_step_can_be_undone_repeated_and_removed(page: &Page) -> Result<()> {
    page.go("example=first-steps&step=2").await?;
    let before = page.seen().await?;
    page.click("#undo").await?;
    ensure!(page.seen().await? != before, "nothing is undone");
    page.click("#next").await?;
    ensure!(page.seen().await? == before, "the step does something else the second time");
    page.click("#restart").await?;
    ensure!(page.text("cluster").await?.contains("not there"), "the workload still runs");
    page.click(&key("step-6")).await?;
    ensure!(page.text("cluster").await?.contains("Pending"), "the timeline does not lead to step 6");
    page.click(&key("remove-5")).await?;
    ensure!(!page.text("cluster").await?.contains("Pending"), "node-4 is still cordoned");
    Ok(())
}

async fn back_returns_to_what_was_changed_before_another_example_was_chosen(page: &Page) -> Result<()> {
    page.go("example=first-steps&step=1").await?;
    page.fill("#settings", "onLookupFailure: accept").await?;
    let changed = page.seen().await?;
    page.choose("forget").await?;
    page.browser.evaluate("history.back()").await?;
    let settings = "document.getElementById('settings').value === 'onLookupFailure: accept'";
    page.browser.wait_until(settings).await?;
    page.settle().await?;
    let seen = page.seen().await?;
    ensure!(seen == changed, "changed: {changed:#}\nafter Back: {seen:#}");
    Ok(())
}

async fn a_notice_about_a_link_goes_with_the_next_change(page: &Page) -> Result<()> {
    page.go("example=unknown").await?;
    ensure!(page.text("notice").await?.contains("There is no example"), "the link is not reported");
    page.click("#next").await?;
    ensure!(page.text("notice").await?.is_empty(), "{}", page.text("notice").await?);
    Ok(())
}

async fn a_new_action_takes_the_place_of_one_that_was_undone(page: &Page) -> Result<()> {
    page.go("example=first-steps&step=1").await?;
    page.click(&key("Node/node-1")).await?;
    page.click(&key("tool-lose")).await?;
    page.click("#undo").await?;
    page.click(&key("tool-cordon")).await?;
    let steps = page.text("timeline").await?;
    ensure!(steps.contains("Cordon node-1") && !steps.contains("Lose node node-1"), "{steps}");
    ensure!(steps.contains("Uncordon node-4"), "the example's steps are gone: {steps}");
    Ok(())
}

async fn all_steps_can_be_played(page: &Page) -> Result<()> {
    page.go("example=forget").await?;
    page.click("#play").await?;
    ensure!(page.text("play").await? == "Stop", "the steps are not played");
    page.browser.wait_for_text("#next", "No step left").await?;
    page.browser.wait_for_text("#play", "Play").await?;
    page.settle().await?;
    ensure!(
        page.text("outcome").await?.contains("db-0 starts on node-2, in the same zone (before: node-1)"),
        "{}",
        page.text("outcome").await?
    );
    Ok(())
}

/// Everything that can be done to a node, a Pod and a workload.
async fn nodes_pods_and_workloads_can_be_acted_on(page: &Page) -> Result<()> {
    page.go("example=first-steps&step=1").await?;
    let acts: [(&str, &str, &str, &str); 9] = [
        ("Pod/db-2/with", "tool-pod", "outcome", "db-2 returns to node-5"),
        ("Node/node-1", "tool-cordon", "cluster", "cordoned"),
        ("Node/node-1", "tool-cordon", "events", "is uncordoned"),
        ("Node/node-1", "tool-drain", "outcome", "db-0 starts on node-2, in the same zone (before: node-1)"),
        ("Node/node-5", "tool-lose", "cluster", "lost"),
        ("Node/node-5", "tool-lose", "events", "is back"),
        ("Node/node-3", "tool-zone", "outcome", "db-1 stays Pending"),
        ("Workload/db", "tool-update", "events", "has a new template"),
        ("Workload/db", "tool-up", "events", "is scaled from 3 to 4"),
    ];
    for (selected, tool, where_seen, expected) in acts {
        let pressed = page
            .browser
            .script(
                "return document.querySelector(arguments[0]).getAttribute('aria-pressed');",
                vec![json!(key(selected))],
            )
            .await?;
        if pressed != "true" {
            page.click(&key(selected)).await?;
        }
        page.click(&key(tool)).await?;
        let seen = page.text(where_seen).await?;
        ensure!(seen.contains(expected), "{tool} of {selected}: {seen}");
    }
    page.click(&key("tool-delete")).await?;
    ensure!(page.text("cluster").await?.contains("not there"), "the workload is not deleted");
    page.click(&key("tool-delete")).await?;
    ensure!(page.text("events").await?.contains("created"), "the workload is not created again");

    page.click(&key("Node/node-1")).await?;
    page.click(&key("tool-lose")).await?;
    page.click(&key("tool-grace")).await?;
    ensure!(
        page.text("timeline").await?.contains("Let the grace period end"),
        "the grace period does not end"
    );

    page.click(&key("Node/node-2")).await?;
    page.fill(&key("label-key"), "disk").await?;
    page.fill(&key("label-value"), "ssd").await?;
    page.click(&key("tool-label")).await?;
    ensure!(page.text("cluster").await?.contains("disk=ssd"), "the label is not set");
    page.click(&key("tool-unlabel")).await?;
    ensure!(!page.text("cluster").await?.contains("disk=ssd"), "the label is not removed");

    page.click("#apply-node").await?;
    page.click("#apply-button").await?;
    ensure!(page.text("cluster").await?.contains("node-7"), "the Node did not join");
    page.click("#apply-button").await?;
    let outcome = page.text("outcome").await?;
    ensure!(!outcome.contains("not done"), "a Node that exists is not changed: {outcome}");
    page.fill("#apply", "kind: Node\napiVersion: v1\nmetadata: {name: Node_8}").await?;
    page.click("#apply-button").await?;
    let outcome = page.text("outcome").await?;
    ensure!(outcome.contains("This step was not done"), "{outcome}");
    Ok(())
}

async fn the_settings_are_those_of_the_policy(page: &Page) -> Result<()> {
    page.go("example=calico&step=2").await?;
    page.fill("#settings", "annotations: {deny: ['cni.projectcalico.org/*']}").await?;
    let problems = page.text("objects-problems").await?;
    ensure!(problems.contains("cni.projectcalico.org/ipAddrs"), "the PPS is not refused: {problems}");
    page.fill("#settings", "annotation: {}").await?;
    let problems = page.text("settings-problems").await?;
    ensure!(problems.contains("Line 1") && problems.contains("annotation"), "{problems}");
    let refused = "document.getElementById('refused-all').checkVisibility()";
    ensure!(page.browser.evaluate(refused).await? == json!(true), "the cluster does not say why it is empty");
    page.fill("#settings", "").await?;
    ensure!(page.text("settings-status").await? == "No problems found.", "the settings still have problems");
    ensure!(page.browser.evaluate(refused).await? == json!(false), "the settings are still called wrong");
    Ok(())
}
