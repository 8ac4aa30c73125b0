//! Changed objects.

use super::*;

#[test]
fn a_changed_stateful_set_replaces_its_pods_and_a_changed_pps_restarts_them() {
    let snapshot = cluster(ZONE, false);
    let selector = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"replicas": 2, "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    let answer = ask(&snapshot, Question::Spec(vec![selector]));
    let then: Vec<Then> = answer.pods.iter().map(|pod| pod.then).collect();
    assert_eq!(then, [Then::Pending], "the update waits for the first Pod that it replaces: {answer:#?}");
    assert_eq!(answer.pods[0].pod, "db-1");
    let [stopped] = answer.stopped_rollouts.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((stopped.workload.as_str(), stopped.at.as_str()), ("db", "db-1"));
    assert_eq!(stopped.not_reached, ["db-0"]);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(answer.pods[0].excluded_by[0].what, ExclusionKind::NodeSelector);

    let mut looser = pps("shop", HOSTNAME, false, &[]).object().clone();
    looser["metadata"] = json!({"name": "db", "namespace": "shop"});
    looser.as_object_mut().unwrap().remove("status");
    let answer = ask(&snapshot, Question::Spec(vec![looser]));
    let names: Vec<&str> = answer.pods.iter().map(|pod| pod.pod.as_str()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    assert_eq!(answer.stopped_rollouts, []);

    let smaller = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"}, "spec": {"replicas": 1}});
    let answer = ask(&snapshot, Question::Spec(vec![smaller]));
    assert!(answer.pods.iter().any(|pod| pod.pod == "db-1" && pod.then == Then::Removed), "{answer:#?}");
    let [dropped] = answer.forgotten.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((dropped.pods.as_slice(), dropped.unwanted), (&["db-1".to_owned()][..], true));

    let larger = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"}, "spec": {"replicas": 3}});
    let answer = ask(&snapshot, Question::Spec(vec![larger]));
    let new = answer.pods.iter().find(|pod| pod.pod == "db-2").unwrap();
    assert_eq!((&new.why, new.as_recorded), (&Why::New, None));

    let mut wrong = pps("shop", "no key!", false, &[]).object().clone();
    wrong["metadata"] = json!({"name": "db", "namespace": "shop"});
    let Err(Failure::Refused(text)) =
        forecast(&snapshot, &Question::Spec(vec![wrong]), None, &CommandLine::default())
    else {
        panic!()
    };
    assert!(text.contains("spec.requiredPersistentTopology"), "{text}");
}
