use crate::decide::forecast::{Advice, Forgotten, StoppedRollout};

use super::*;

fn pod(name: &str, then: Then, node_then: Option<&str>, may_land_on: &[&str], why: &str) -> PodForecast {
    PodForecast {
        namespace: "shop".into(),
        workload: "db".into(),
        pod: name.into(),
        node_now: Some("node-1".into()),
        then,
        node_then: node_then.map(str::to_owned),
        may_land_on: may_land_on.iter().map(|node| (*node).to_owned()).collect(),
        recorded_node: Some("node-1".into()),
        why: why.into(),
        caveats: vec!["its host ports are not simulated".into()],
        ..PodForecast::default()
    }
}

const HELD: &str = "node-1 is cordoned; 998 nodes: the Pod's recorded state requires kubernetes.io/hostname node-1. Without its recorded state, node-2 could take it";

fn sample() -> Forecast {
    let other = |name: &str, has_pps, owner: Option<&str>| Displaced {
        namespace: "shop".into(),
        pod: name.into(),
        node: "node-1".into(),
        owner: owner.map(str::to_owned),
        has_pps,
        is_noted: false,
    };
    let held = |name: &str| PodForecast {
        without_its_state: vec!["node-2".into()],
        is_injected_only: false,
        ..pod(name, Then::Pending, None, &[], HELD)
    };
    Forecast {
        question: "node-1 is drained".into(),
        is_drain: true,
        pods: vec![
            PodForecast {
                others: vec!["node-5".into()],
                ..pod(
                    "db-0",
                    Then::Running,
                    Some("node-2"),
                    &["node-2", "node-3", "node-4"],
                    "as recorded: zone=a",
                )
            },
            held("db-1"),
            PodForecast { already: true, node_now: None, ..held("db-2") },
            pod("db-3", Then::NotEvicted, Some("node-1"), &[], "PodDisruptionBudget db needs 2 Pods"),
        ],
        advice: vec![Advice {
            text: "2 Pods would wait for their recorded place. To let one start elsewhere".into(),
            command: "kubectl pps move db-1 --anywhere -n shop".into(),
        }],
        forgotten: vec![Forgotten {
            namespace: "shop".into(),
            pps: "db".into(),
            pods: (0..6).map(|index| format!("db-{index}")).collect(),
            unwanted: false,
        }],
        not_simulated: vec![
            other("x-0", true, Some("Database/x")),
            other("web-5d4", false, Some("ReplicaSet/web")),
            other("burden-3", false, None),
            // It is said by a note.
            Displaced { is_noted: true, ..other("db-9", false, Some("StatefulSet/db")) },
        ],
        notes: vec!["Node/node-1 \u{1b}[2Jis odd".into()],
        ..Forecast::default()
    }
}

#[test]
fn a_forecast_says_where_each_pod_would_be_and_each_reason_once() {
    let expected = "\
If node-1 is drained:

POD   NOW     THEN                WHY
db-0  node-1  node-2 or 2 others  as recorded: zone=a
db-1  node-1  Pending             its recorded state keeps it
db-2  -       Pending             its recorded state keeps it
db-3  node-1  not evicted         a PodDisruptionBudget protects it

db-0: probably on node-2, node-3 or node-4; node-5 could take it too.
db-1 and db-2: node-1 is cordoned; 998 nodes: the Pod's recorded state requires
kubernetes.io/hostname node-1. Without its recorded state, node-2 could take it.
db-3: PodDisruptionBudget db needs 2 Pods.

4 Pods: 1 would run, 2 would be Pending (1 of them is so now), 1 could not be
evicted.
2 Pods would wait for their recorded place. To let one start elsewhere:
  kubectl pps move db-1 --anywhere -n shop
After the grace period, PersistentPodState shop/db would forget db-0, db-1,
db-2, db-3, db-4 and db-5 (nodeDeletionPolicy: Forget).
shop/x-0 would lose node-1. Its workload Database/x has a PersistentPodState,
but this kind is not simulated: where the Pod would go is not known.
Not simulated: shop/web-5d4 would lose its node; its controller creates new
Pods, which need room elsewhere.
shop/burden-3 has no controller. A drain refuses to delete it without --force.
Nothing creates it again once it is deleted.
note: db-0, db-1, db-2 and db-3: its host ports are not simulated
note: Node/node-1 \u{fffd}[2Jis odd
";
    let text = forecast(&sample(), Style { has_color: false, width: Some(80) }, false, false);
    assert_eq!(text, expected);
}

#[test]
fn without_a_terminal_no_reason_is_said_twice_and_a_wide_table_has_them_in_its_rows() {
    let text = forecast(&sample(), Style::PLAIN, false, false);
    assert_eq!(text.matches("Without its recorded state").count(), 1, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let wide = forecast(&sample(), Style::PLAIN, true, false);
    let rows = wide.lines().filter(|line| line.starts_with("db-") && line.ends_with(HELD)).count();
    assert_eq!(rows, 2, "{wide}");
}

#[test]
fn no_line_is_longer_than_the_terminal_is_wide_and_no_command_is_broken() {
    for width in [60, 80] {
        let text = forecast(&sample(), Style { has_color: false, width: Some(width) }, false, true);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.contains("kubectl pps move db-1 --anywhere -n shop\n"), "{text}");
    }
}

#[test]
fn a_rollout_that_stops_is_said_with_the_pods_that_it_does_not_reach() {
    let stopped = |not_reached: &[&str]| {
        let stopped = StoppedRollout {
            namespace: "shop".into(),
            workload: "db".into(),
            at: "db-2".into(),
            not_reached: not_reached.iter().map(|pod| (*pod).to_owned()).collect(),
        };
        let answer = Forecast { stopped_rollouts: vec![stopped], ..Forecast::default() };
        forecast(&answer, Style::PLAIN, false, false).lines().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        stopped(&["db-1", "db-0"]),
        "No Pod would be replaced. The rollout of StatefulSet db stops at db-2, which does not become Ready. It does not reach db-1 \
         and db-0, which keep their former template and are not forecast."
    );
    assert!(
        stopped(&["db-1"])
            .ends_with("It does not reach db-1, which keeps its former template and is not forecast.")
    );
    assert!(stopped(&[]).ends_with("stops at db-2, which does not become Ready."));
}

#[test]
fn nothing_that_happens_is_said() {
    let nothing = Forecast { question: "node-1 is drained".into(), ..Forecast::default() };
    let text = forecast(&nothing, Style::PLAIN, false, false);
    assert_eq!(text, "If node-1 is drained:\nNo Pod of a StatefulSet would be touched.\n");
}

#[test]
fn what_a_smaller_workload_loses_has_nothing_to_do_with_nodes() {
    let forgotten =
        Forgotten { namespace: "shop".into(), pps: "db".into(), pods: vec!["db-2".into()], unwanted: true };
    let text =
        forecast(&Forecast { forgotten: vec![forgotten], ..Forecast::default() }, Style::PLAIN, false, false);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("would drop what is recorded of db-2 at once"), "{text}");
    assert!(!words.contains("grace period"), "{text}");
}
