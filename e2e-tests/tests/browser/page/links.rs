//! Links to a state of the page.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Page, key};

/// Makes DATA of a link from the text of its JSON.
const PACK: &str = r#"
    const stream = new Blob([arguments[0]]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let binary = "";
    for (const byte of bytes) binary += String.fromCharCode(byte);
    return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
"#;

async fn pack(page: &Page, json: &str) -> Result<String> {
    let data = page.browser.script(PACK, vec![json!(json)]).await?;
    Ok(data.as_str().unwrap_or_default().to_owned())
}

pub(super) async fn hold_the_whole_state(page: &Page) -> Result<()> {
    play!(page;
        a_link_restores_the_state_that_it_was_copied_from,
        a_link_that_cannot_be_opened_is_reported_and_the_first_example_is_shown,
        a_link_with_unknown_actions_is_opened_and_says_what_is_wrong,
        an_example_of_a_document_gets_nodes_and_a_workload,
    );
    Ok(())
}

async fn a_link_restores_the_state_that_it_was_copied_from(page: &Page) -> Result<()> {
    page.go("example=calico&step=2").await?;
    page.fill("#settings", "onLookupFailure: accept # ünïcode €")
        .await?;
    page.click(&key("Node/node-4")).await?;
    page.click(&key("tool-cordon")).await?;
    page.click(&key("Pod/broker-2/without")).await?;
    page.click(&key("tool-pod")).await?;
    page.click("#undo").await?;
    let objects = page
        .browser
        .evaluate("document.getElementById('objects').value")
        .await?;
    let objects = objects
        .as_str()
        .unwrap_or_default()
        .replace("replicas: 3", "replicas: 4");
    page.fill("#objects", &objects).await?;
    let seen = page.seen().await?;
    let fragment = page.fragment().await?;
    ensure!(fragment.starts_with("scenario="), "{fragment}");
    ensure!(
        fragment.len() < 2000,
        "the link has {} characters",
        fragment.len()
    );
    page.load(&fragment).await?;
    let restored = page.seen().await?;
    ensure!(restored == seen, "copied: {seen:#}\nrestored: {restored:#}");
    ensure!(page.fragment().await? == fragment, "the link changed");
    Ok(())
}

async fn a_link_that_cannot_be_opened_is_reported_and_the_first_example_is_shown(
    page: &Page,
) -> Result<()> {
    page.go("").await?;
    let first = page.seen().await?;
    let whole = pack(page, r#"{"version":1,"objects":"a: 1"}"#).await?;
    let bomb = pack(
        page,
        &format!(r#"{{"version":1,"objects":"{}"}}"#, "a".repeat(2 << 20)),
    )
    .await?;
    ensure!(bomb.len() < 5000, "the bomb has {} characters", bomb.len());
    let cases = [
        ("nonsense".to_owned(), "is not a link to a scenario"),
        ("example=unknown".to_owned(), "There is no example"),
        ("example=forget&step=x".to_owned(), "must be a number"),
        (format!("scenario={}", &whole[..whole.len() - 4]), "damaged"),
        (format!("scenario=A{whole}"), "damaged"),
        ("scenario=".to_owned(), "damaged"),
        ("scenario=%00<script>".to_owned(), "damaged"),
        (format!("scenario={}", "A".repeat(70_000)), "At most 65,536"),
        (format!("scenario={bomb}"), "unpacks to more than"),
        (format!("scenario={}", pack(page, "[]").await?), "“objects” is missing"),
        (format!("yaml={}", pack(page, r#"{"version":2,"objects":""}"#).await?), "version 2"),
        (
            format!("scenario={}", pack(page, r#"{"version":1,"objects":"","actions":[1]}"#).await?),
            "“actions”",
        ),
        (format!("scenario={}", pack(page, r#"{"version":1,"objects":"","done":1}"#).await?), "“done”"),
        (
            format!(
                "scenario={}",
                pack(
                    page,
                    &json!({"version": 1, "objects": "", "actions": vec![json!({"do": "rollOut"}); 201]})
                        .to_string()
                )
                .await?
            ),
            "201 actions",
        ),
    ];
    for (fragment, expected) in cases {
        page.go(&fragment).await?;
        let notice = page.text("notice").await?;
        let start = fragment.get(..60).unwrap_or(&fragment);
        ensure!(
            notice.contains(expected) && notice.ends_with("You see the first example instead."),
            "{start}: {notice}"
        );
        ensure!(
            page.seen().await? == first,
            "{start}: the page does not show the first example"
        );
    }
    Ok(())
}

/// Actions that the engine does not know or cannot do are its problems, not the page's.
async fn a_link_with_unknown_actions_is_opened_and_says_what_is_wrong(page: &Page) -> Result<()> {
    page.go("").await?;
    for actions in [
        json!([{"do": "explode"}]),
        json!([{"do": "deletePod"}]),
        json!([{"do": "deletePod", "pod": {"a": 1}}]),
    ] {
        let state = json!({"version": 1, "objects": "", "actions": actions, "done": 1});
        page.go(&format!(
            "scenario={}",
            pack(page, &state.to_string()).await?
        ))
        .await?;
        let problems = page.text("objects-problems").await?;
        ensure!(problems.contains("Error"), "{actions}: {problems}");
    }
    Ok(())
}

/// What a document's example leaves out is added: see the format in `playground/js/link.js`.
async fn an_example_of_a_document_gets_nodes_and_a_workload(page: &Page) -> Result<()> {
    page.go("").await?;
    let pps = |target: &str| {
        format!(
            "apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\nmetadata:\n  name: \
             db\nspec:\n  targetRef: {target}\n  requiredPersistentTopology:\n    \
             nodeTopologyKeys: [topology.kubernetes.io/zone]\n"
        )
    };
    for target in [
        "{apiVersion: apps/v1, kind: StatefulSet, name: db}",
        "\n    apiVersion: apps.kruise.io/v1beta1\n    kind: StatefulSet\n    name: db",
    ] {
        let data = pack(
            page,
            &json!({"version": 1, "objects": pps(target)}).to_string(),
        )
        .await?;
        page.go(&format!("yaml={data}")).await?;
        ensure!(
            page.text("objects-status").await? == "No problems found.",
            "{}",
            page.text("objects-problems").await?
        );
        page.click("#next").await?;
        page.click("#next").await?;
        let outcome = page.text("outcome").await?;
        ensure!(outcome.contains("db-0 returns to node-1"), "{outcome}");
    }
    let annotated = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: queue\n  \
                     annotations:\n    kruise.io/auto-generate-persistent-pod-state: \"true\"\n    \
                     kruise.io/required-persistent-topology: topology.kubernetes.io/zone\nspec:\n  \
                     replicas: 2\n  selector:\n    matchLabels: {app: queue}\n  template:\n    \
                     metadata:\n      labels: {app: queue}\n    spec:\n      containers: [{name: \
                     queue, image: pause}]\n";
    let data = pack(
        page,
        &json!({"version": 1, "objects": annotated}).to_string(),
    )
    .await?;
    page.go(&format!("yaml={data}")).await?;
    page.click("#next").await?;
    page.click("#next").await?;
    let outcome = page.text("outcome").await?;
    ensure!(outcome.contains("queue-0 returns to node-1"), "{outcome}");

    let whole = page
        .browser
        .evaluate("document.getElementById('objects').value")
        .await?;
    let data = pack(page, &json!({"version": 1, "objects": whole}).to_string()).await?;
    page.go(&format!("yaml={data}")).await?;
    ensure!(
        page.browser
            .evaluate("document.getElementById('objects').value")
            .await?
            == whole,
        "a whole scenario was changed"
    );
    Ok(())
}
