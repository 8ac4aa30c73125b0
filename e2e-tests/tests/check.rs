//! `pps-sidecar check` names what is wrong with an installation: the real static program on a real
//! control plane, with the rights of `deploy/check.yaml`. Each case makes one mistake, and corrects
//! it again.
//!
//! The Pods of the PolicyServer are simulated here, so nothing answers its webhooks.

mod hooks;
mod mistakes;
mod run;
mod world;

use std::{fs, net::Ipv4Addr};

use pps_e2e::registry::{Registry, RegistryOptions};
use serde_json::json;

use self::run::{run_check, run_check_with};
use self::world::World;
use crate::support::causes::CAUSES;

#[tokio::test]
async fn check_names_what_is_wrong_with_an_installation() {
    let mut world = World::without_the_product().await;
    before_an_installation_it_says_what_would_not_work(&world).await;
    world.install().await;
    a_right_installation_has_no_finding(&world).await;
    hooks::have_the_same_rights(&world);
    hooks::stop_a_wrong_installation_and_pass_a_right_one(&world).await;
    hooks::run_as_a_helm_test(&world).await;
    hooks::run_each_day(&world).await;
    mistakes::of_kubewardens_versions(&world).await;
    mistakes::of_the_policies(&world).await;
    mistakes::of_the_module(&world).await;
    mistakes::of_the_account(&world).await;
    mistakes::of_the_sidecar(&world).await;
    mistakes::of_the_definition(&world).await;
    mistakes::of_the_checks_own_rights(&world).await;
    world.assert_rights_used_as_granted();
    for (way, code) in CAUSES {
        assert!(
            world.has_found(code),
            "the check has not named {way} by {code}"
        );
    }
}

async fn a_right_installation_has_no_finding(world: &World) {
    let report = world.check(&[]).await;
    assert_eq!(report.exit_code, 0, "{report:#?}");
    for severity in ["error", "unknown"] {
        assert_eq!(report.codes(severity), [""; 0], "{report:#?}");
    }
    assert_eq!(report.codes("warning"), [""; 0], "{report:#?}");
    assert_eq!(report.codes("info"), [""; 0], "{report:#?}");
    for code in [
        "KubewardenInstalled",
        "DefinitionReady",
        "PolicyServerReady",
        "LookupAllowed",
        "PolicyActive",
        "WebhookRegistered",
        "ModuleFound",
        "SidecarAvailable",
        "LeaderActive",
        "ObjectsRecorded",
    ] {
        assert!(report.has(code, "ok"), "{code}: {report:#?}");
    }
    // Before an upgrade with the same values.
    let args = [
        "--phase=before",
        "--policy-server=persistent-pod-state",
        "--creates-policy-server",
    ];
    let report = world.check(&args).await;
    assert_eq!(report.exit_code, 0, "{report:#?}");
    assert_eq!(report.codes("warning"), [""; 0], "{report:#?}");
}

async fn before_an_installation_it_says_what_would_not_work(world: &World) {
    let registry = &world.registry;
    let insecure = format!("--insecure-source={}", registry.host());
    let created = [
        "--phase=before",
        "--policy-server=persistent-pod-state",
        "--creates-policy-server",
    ];
    let with = |module: &str| {
        let module = format!("--module=registry://{module}");
        [&created[..], &[&insecure, &module]]
            .concat()
            .iter()
            .map(|arg| (*arg).to_owned())
            .collect::<Vec<_>>()
    };

    let report = world.check_all(&with(&world.module)).await;
    assert_eq!(
        (report.exit_code, report.has("ModuleFound", "ok")),
        (0, true),
        "{report:#?}"
    );

    // The module has no such tag.
    let wrong = format!("{}/policies/persistent-pod-state:v9.9.9", registry.host());
    let report = world.check_all(&with(&wrong)).await;
    assert_eq!(
        (report.exit_code, report.has("ModuleNotFound", "error")),
        (1, true),
        "{report:#?}"
    );

    // A registry with a certificate of an authority that nobody knows.
    let options = RegistryOptions {
        name: "own-authority".into(),
        tls: true,
        ..RegistryOptions::default()
    };
    let own = Registry::start(world.cluster.control_plane.supervisor(), options)
        .await
        .unwrap();
    let wrong = with(&format!("{}/p:v1", own.host()));
    let report = world.check_all(&wrong).await;
    assert_eq!(
        (report.exit_code, report.has("RegistryUnreachable", "error")),
        (1, true),
        "{report:#?}"
    );
    // The PolicyServer is given the authority: the registry is asked, and does not have the module.
    let authority = fs::read_to_string(own.ca().unwrap()).unwrap();
    world
        .policy_server(&json!({"sourceAuthorities": {own.host(): [authority]}}))
        .await;
    let report = world.check_all(&wrong).await;
    assert!(report.has("ModuleNotFound", "error"), "{report:#?}");
    world.delete_policy_server().await;

    // A PolicyServer that nobody creates.
    let report = world
        .check(&["--phase=before", "--policy-server=default"])
        .await;
    assert_eq!(
        (report.exit_code, report.has("PolicyServerMissing", "error")),
        (1, true),
        "{report:#?}"
    );
}

#[tokio::test]
async fn a_check_that_cannot_be_made_exits_with_2() {
    let folder = pps_e2e::scratch::Scratch::file("kubeconfig", kubeconfig(closed_port())).unwrap();
    let report = run_check(folder.path(), &[]).await.unwrap();
    assert_eq!(
        (report.exit_code, report.codes("unknown")),
        (2, vec!["RequestFailed"]),
        "{report:#?}"
    );
    let table = run_check_with(folder.path(), &[]).await.unwrap();
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(
        text.starts_with("UNKNOWN   RequestFailed\n          the API server: cannot be read: "),
        "{text}"
    );
    let wrong = run_check_with(folder.path(), &["--phase=between"])
        .await
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let missing = run_check_with(std::path::Path::new("/nowhere"), &[])
        .await
        .unwrap();
    assert_eq!(
        missing.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&missing.stderr)
    );
    for zero in ["--exit-zero", "--exit-zero=unknown"] {
        let zero = run_check_with(folder.path(), &[zero]).await.unwrap();
        assert_eq!(zero.status.code(), Some(0));
    }
}

fn closed_port() -> u16 {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn kubeconfig(port: u16) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "u", "user": {}}],
    })
    .to_string()
}
