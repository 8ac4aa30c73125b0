//! Each example, by clicking.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Page, key};

const NOTHING: &str = "No Pod starts or stops.";

/// What a step says, with PPS and without.
type Said = (&'static str, &'static str);

/// What the steps of each example say.
const EXAMPLES: [(&str, &[Said]); 8] = [
    (
        "local-disk",
        &[
            (
                "db-1 returns to node-4, with its data.",
                "db-1 starts on node-3: its data stayed on node-4.",
            ),
            (
                "db-0 stays Pending: no node can take it. Its data is on node-2.",
                "db-0 starts on node-1: its data stayed on node-2.",
            ),
            ("db-0 returns to node-2, with its data.", NOTHING),
            (
                "db-2 returns to node-6, with its data.",
                "db-2 starts on node-5: its data stayed on node-6.",
            ),
        ],
    ),
    (
        "calico",
        &[
            (
                "broker-1 starts on node-3, in the same zone, with its IP address.",
                "broker-1 starts on node-3: clients know it at 10.20.1.7, and it is at 10.1.0.1.",
            ),
            (
                "broker-0 starts on node-1, in the same zone, with its IP address.",
                "clients know it at 10.20.0.7",
            ),
            ("broker-1 is gone.", "broker-1 is gone."),
            (
                "broker-1 returns to node-3, with its IP address.",
                "clients know it at 10.20.1.7",
            ),
        ],
    ),
    (
        "preferred",
        &[
            (
                "cache-1 returns to node-4, with its data.",
                "cache-1 starts on node-3: its data stayed on node-4.",
            ),
            (
                "cache-0 returns to node-2, with its data.",
                "cache-0 starts on node-1: its data stayed on node-2.",
            ),
            (
                "cache-0 starts on node-1: its data stayed on node-2.",
                NOTHING,
            ),
        ],
    ),
    (
        "home",
        &[
            (
                "home-1 returns to node-4, with its data.",
                "home-1 starts on node-3: its data stayed on node-4.",
            ),
            (
                "home-0 starts on node-1: its data stayed on node-2.",
                "last-0 starts on node-1: its data stayed on node-2.",
            ),
            (NOTHING, NOTHING),
            (
                "home-0 returns to node-2, with its data.",
                "home-0 starts on node-1: its data stayed on node-2.",
            ),
            (
                "last-0 starts on node-1: its data stayed on node-2.",
                "last-0 starts on node-1: its data stayed on node-2.",
            ),
        ],
    ),
    (
        "move",
        &[
            (
                "broker-0 stays Pending: no node can take it.",
                "clients know it at 10.20.0.7",
            ),
            (
                "broker-0 starts on node-1, in the same zone, with its IP address.",
                NOTHING,
            ),
            (
                "broker-0 returns to node-1, with its IP address.",
                "clients know it at 10.20.0.7",
            ),
        ],
    ),
    (
        "forget",
        &[
            (
                "db-0 stays Pending: no node can take it. Its data is on node-2.",
                "db-0 starts on node-1: its data is on node-2, which is lost.",
            ),
            ("db-0 returns to node-2, with its data.", NOTHING),
            (
                "db-1 stays Pending",
                "db-1 starts on node-3: its data is on node-4, which is lost.",
            ),
            (
                "db-1 starts on node-3: its data is on node-4, which is lost.",
                NOTHING,
            ),
        ],
    ),
    (
        "fallback",
        &[
            (
                "db-0 stays Pending",
                "db-0 starts on node-1: its data is on node-2, which is lost.",
            ),
            ("db-0 returns to node-2, with its data.", NOTHING),
            ("db-0 stays Pending", NOTHING),
            ("db-0 starts on node-1", NOTHING),
        ],
    ),
    (
        "refused",
        &[
            (NOTHING, NOTHING),
            (
                "db-0 returns to node-2, with its data and its IP address.",
                "db-0 starts on node-1: its data stayed on node-2, and clients know it at \
                 10.20.0.7, and it is at",
            ),
        ],
    ),
];

/// What a step says, and whether the cluster shows something else on each side: the Pods on each
/// node, and the workload.
const STEP: &str = r##"(() => {
    const text = (selector) => document.querySelector(selector).innerText;
    const column = (side) => [...document.querySelectorAll(`#cluster [role=cell].${side}`)]
        .map((cell) => cell.innerText.replace(/\b(with|without) PPS/g, ""));
    return {
        with: text("#outcome .with"), without: text("#outcome .without"), caption: text("#caption"),
        differ: JSON.stringify(column("with")) !== JSON.stringify(column("without")),
    };
})()"##;

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
        what_is_lost_is_counted,
        nodes_pods_and_workloads_can_be_acted_on,
        no_more_pods_are_offered_than_are_simulated,
        the_settings_are_those_of_the_policy,
    )
}

async fn each_example_shows_what_its_text_says(page: &Page) -> Result<()> {
    page.go("").await?;
    let offered = page
        .browser
        .evaluate(
            "[...document.querySelectorAll('#example option:not([disabled])')].map((option) => \
             option.value)",
        )
        .await?;
    ensure!(
        offered == json!(EXAMPLES.map(|(name, _)| name)),
        "the page offers {offered}"
    );
    for (name, steps) in EXAMPLES {
        page.choose(name).await?;
        for (index, (with, without)) in steps.iter().enumerate() {
            page.click("#next").await?;
            let step = page.browser.evaluate(STEP).await?;
            for (side, expected) in [("with", with), ("without", without)] {
                let said = step[side].as_str().unwrap_or_default();
                ensure!(
                    said.contains(expected),
                    "{name}, step {}, {side} PPS: {said}",
                    index + 1
                );
            }
            ensure!(
                step["caption"] != "",
                "{name}, step {} has no text",
                index + 1
            );
            let differ = step["differ"] == true;
            ensure!(
                differ || index == 0,
                "{name}, step {}: both columns show the same",
                index + 1
            );
        }
        ensure!(
            page.text("next").await? == "No step left",
            "{name} has more steps"
        );
        let by_clicking = page.seen().await?;
        page.go(&format!("example={name}&step={}", steps.len()))
            .await?;
        ensure!(
            page.seen().await? == by_clicking,
            "{name}: the link to its end shows something else"
        );
    }
    Ok(())
}

async fn the_details_follow_the_pods_that_a_step_moves(page: &Page) -> Result<()> {
    page.go("example=preferred&step=1").await?;
    ensure!(
        page.text("details")
            .await?
            .starts_with("Pod cache-1, with PPS"),
        "the deleted Pod is not shown"
    );
    for _ in ["all Pods are replaced", "the node is drained"] {
        page.click("#next").await?;
        let details = page.text("details").await?;
        ensure!(details.starts_with("Pod cache-0, with PPS"), "{details}");
    }
    Ok(())
}

async fn a_step_can_be_undone_repeated_and_removed(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=2").await?;
    let before = page.seen().await?;
    page.click("#undo").await?;
    ensure!(page.seen().await? != before, "nothing is undone");
    page.click("#next").await?;
    ensure!(
        page.seen().await? == before,
        "the step does something else the second time"
    );
    page.click("#restart").await?;
    ensure!(
        !page.text("cluster").await?.contains("its data"),
        "a Pod is still a successor"
    );
    page.click(&key("step-2")).await?;
    ensure!(
        page.text("cluster").await?.contains("Pending"),
        "the timeline does not lead to step 2"
    );
    page.click(&key("remove-2")).await?;
    ensure!(
        !page.text("cluster").await?.contains("Pending"),
        "node-2 is still drained"
    );
    Ok(())
}

async fn back_returns_to_what_was_changed_before_another_example_was_chosen(
    page: &Page,
) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    page.fill("#settings", "onLookupFailure: accept").await?;
    let changed = page.seen().await?;
    page.choose("forget").await?;
    page.browser.evaluate("history.back()").await?;
    let settings = "document.getElementById('settings').value === 'onLookupFailure: accept'";
    page.browser.wait_until(settings).await?;
    page.settle().await?;
    let seen = page.seen().await?;
    ensure!(
        seen == changed,
        "changed: {changed:#}\nafter Back: {seen:#}"
    );
    Ok(())
}

async fn a_notice_about_a_link_goes_with_the_next_change(page: &Page) -> Result<()> {
    page.go("example=unknown").await?;
    ensure!(
        page.text("notice").await?.contains("There is no example"),
        "the link is not reported"
    );
    page.click("#next").await?;
    ensure!(
        page.text("notice").await?.is_empty(),
        "{}",
        page.text("notice").await?
    );
    Ok(())
}

async fn a_new_action_takes_the_place_of_one_that_was_undone(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    page.click(&key("Node/node-1")).await?;
    page.click(&key("tool-lose")).await?;
    page.click("#undo").await?;
    page.click(&key("tool-cordon")).await?;
    let steps = page.text("timeline").await?;
    ensure!(
        steps.contains("Cordon node-1") && !steps.contains("Lose node node-1"),
        "{steps}"
    );
    ensure!(
        steps.contains("Uncordon node-2"),
        "the example's steps are gone: {steps}"
    );
    Ok(())
}

async fn all_steps_can_be_played(page: &Page) -> Result<()> {
    page.go("example=forget").await?;
    page.click("#play").await?;
    ensure!(
        page.text("play").await? == "Stop",
        "the steps are not played"
    );
    page.browser.wait_for_text("#next", "No step left").await?;
    page.browser.wait_for_text("#play", "Play").await?;
    page.settle().await?;
    ensure!(
        page.text("outcome")
            .await?
            .contains("db-1 starts on node-3"),
        "{}",
        page.text("outcome").await?
    );
    Ok(())
}

async fn what_is_lost_is_counted(page: &Page) -> Result<()> {
    for (example, with, without) in [
        (
            "local-disk&step=1",
            "3 of 3 Pods run",
            "3 of 3 Pods run, 1 without its data",
        ),
        (
            "local-disk&step=4",
            "3 of 3 Pods run",
            "3 of 3 Pods run, 3 without their data",
        ),
        (
            "calico&step=2",
            "3 of 3 Pods run",
            "3 of 3 Pods run, 2 with another IP address",
        ),
        (
            "preferred&step=3",
            "3 of 3 Pods run, 1 without its data",
            "3 of 3 Pods run, 3 without their data",
        ),
        (
            "move&step=3",
            "3 of 3 Pods run",
            "3 of 3 Pods run, 3 with another IP address",
        ),
        (
            "home&step=5",
            "3 of 3 Pods run",
            "3 of 3 Pods run, 3 without their data",
        ),
    ] {
        page.go(&format!("example={example}")).await?;
        for (side, expected) in [("with", with), ("without", without)] {
            let said = page
                .browser
                .text(&format!("#cluster .workload .{side}"))
                .await?;
            ensure!(said == expected, "{example}, {side} PPS: {said}");
        }
    }
    // The other workload of the last example has no home.
    let cluster = page.text("cluster").await?;
    ensure!(
        cluster.contains("3 of 3 Pods run, 1 without its data"),
        "{cluster}"
    );
    Ok(())
}

/// Everything that can be done to a node, a Pod and a workload.
async fn nodes_pods_and_workloads_can_be_acted_on(page: &Page) -> Result<()> {
    page.go("example=local-disk&step=1").await?;
    let acts: [(&str, &str, &str, &str); 11] = [
        (
            "Pod/db-2/with",
            "tool-pod",
            "outcome",
            "db-2 returns to node-6",
        ),
        (
            "Pod/db-2/with",
            "tool-move",
            "outcome",
            "db-2 starts on node-5: its data stayed on node-6.",
        ),
        ("Node/node-1", "tool-cordon", "cluster", "cordoned"),
        ("Node/node-1", "tool-cordon", "events", "is uncordoned"),
        ("Node/node-2", "tool-drain", "outcome", "db-0 stays Pending"),
        (
            "Node/node-2",
            "tool-cordon",
            "outcome",
            "db-0 returns to node-2, with its data.",
        ),
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
    ensure!(
        page.text("cluster").await?.contains("not there"),
        "the workload is not deleted"
    );
    page.click(&key("tool-delete")).await?;
    ensure!(
        page.text("events").await?.contains("created"),
        "the workload is not created again"
    );

    page.click(&key("Node/node-1")).await?;
    page.click(&key("tool-lose")).await?;
    page.click(&key("tool-grace")).await?;
    ensure!(
        page.text("timeline")
            .await?
            .contains("Let the grace period end"),
        "the grace period does not end"
    );

    page.click(&key("Node/node-2")).await?;
    page.fill(&key("label-key"), "disk").await?;
    page.fill(&key("label-value"), "ssd").await?;
    page.click(&key("tool-label")).await?;
    ensure!(
        page.text("cluster").await?.contains("disk=ssd"),
        "the label is not set"
    );
    page.click(&key("tool-unlabel")).await?;
    ensure!(
        !page.text("cluster").await?.contains("disk=ssd"),
        "the label is not removed"
    );

    page.click("#apply-node").await?;
    page.click("#apply-button").await?;
    ensure!(
        page.text("cluster").await?.contains("node-7"),
        "the Node did not join"
    );
    page.click("#apply-button").await?;
    let outcome = page.text("outcome").await?;
    ensure!(
        !outcome.contains("not done"),
        "a Node that exists is not changed: {outcome}"
    );
    page.fill(
        "#apply",
        "kind: Node\napiVersion: v1\nmetadata: {name: Node_8}",
    )
    .await?;
    let steps = page.text("timeline").await?;
    page.click("#apply-button").await?;
    let problems = page.text("apply-problems").await?;
    ensure!(
        problems.contains("Line 3") && problems.contains("Node_8"),
        "{problems}"
    );
    ensure!(
        page.text("timeline").await? == steps,
        "a Node that cannot be added is a step"
    );
    Ok(())
}

async fn no_more_pods_are_offered_than_are_simulated(page: &Page) -> Result<()> {
    page.go("").await?;
    let objects = page
        .browser
        .evaluate("document.getElementById('objects').value")
        .await?;
    let objects = objects.as_str().unwrap_or_default();
    page.fill("#objects", &objects.replace("replicas: 3", "replicas: 249"))
        .await?;
    page.click(&key("Workload/db")).await?;
    page.click(&key("tool-up")).await?;
    let tools = page.browser.text("#cluster .toolbar").await?;
    ensure!(
        tools.contains("At most 250 Pods are simulated.") && !tools.contains("Scale to 251"),
        "{tools}"
    );
    Ok(())
}

async fn the_settings_are_those_of_the_policy(page: &Page) -> Result<()> {
    page.go("example=calico&step=2").await?;
    page.fill(
        "#settings",
        "annotations: {deny: ['cni.projectcalico.org/*']}",
    )
    .await?;
    let problems = page.text("objects-problems").await?;
    ensure!(
        problems.contains("cni.projectcalico.org/ipAddrs"),
        "the PPS is not refused: {problems}"
    );
    page.fill("#settings", "annotation: {}").await?;
    let problems = page.text("settings-problems").await?;
    ensure!(
        problems.contains("Line 1") && problems.contains("annotation"),
        "{problems}"
    );
    ensure!(
        page.is_visible("refused-all").await?,
        "the cluster does not say why it is empty"
    );
    page.fill("#settings", "").await?;
    ensure!(
        page.text("settings-status").await? == "No problems found.",
        "the settings still have problems"
    );
    ensure!(
        !page.is_visible("refused-all").await?,
        "the settings are still called wrong"
    );
    Ok(())
}
