//! kubectl's global flags: who asks, which API server, and for how long; and what `status` chooses.

use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    plugin::Plugin,
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::answers::{VIEWER, ask, assert_exit, assert_says, make_pending, plugin, until};
use crate::support::{Pool, TIMEOUT, ZONE, required};

/// A user who may only impersonate `jane` and her group.
pub(super) const USER: &str = "impersonator";
const NAMESPACE: &str = "flags";
const AS_JANE: [&str; 6] = ["--as", "jane", "--as-group", "readers", "-n", NAMESPACE];

pub(super) async fn a_user_who_is_impersonated_is_asked_for_and_named_again(cluster: &Cluster) {
    let pool = Pool::new(cluster, NAMESPACE, 1, 1).await;
    pool.object("web", &required("web", &[ZONE])).await;
    cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    cluster.apply_objects(&rights()).await.unwrap();
    let impersonator = plugin(cluster, USER);
    let status = wait_for("the rights of the impersonated user", TIMEOUT, async || {
        let answer = impersonator
            .run(&[&["status"][..], &AS_JANE].concat())
            .await?;
        Ok(Progress::when(
            answer.exit_code == 0,
            answer.clone(),
            format!("{answer:?}"),
        ))
    });
    assert_says(&status.await.unwrap(), &["web-0 Ready"]);
    for (flags, missing) in [
        (
            &["-n", NAMESPACE][..],
            "you have no permission to list persistentpodstates",
        ),
        (
            &["--as", "jane", "-n", NAMESPACE],
            "you have no permission to list persistentpodstates",
        ),
        (
            &["--as", "jane", "--as-group", "system:masters"],
            "you have no permission to impersonate",
        ),
        (&["--as", "admin"], "you have no permission to impersonate"),
        (
            &["--as-group", "readers"],
            "--as-group and --as-uid need --as NAME",
        ),
    ] {
        let answer = impersonator
            .run(&[&["status"][..], flags].concat())
            .await
            .unwrap();
        assert_exit(&answer, 2);
        assert!(answer.stderr.contains(missing), "{flags:?}: {answer:?}");
    }

    an_api_server_and_a_token_may_be_named(&pool).await;
    workloads_are_chosen(&pool).await;

    cluster.nodes.cordon("flags-0").await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = impersonator
        .run(&[&["status"][..], &AS_JANE].concat())
        .await
        .unwrap();
    assert_exit(&answer, 1);
    let command = "kubectl pps explain web-0 -n flags --as jane --as-group readers";
    assert_says(&answer, &[command]);
    let problems = ask(&pool, &["status", "--problems"]).await;
    assert_exit(&problems, 1);
    assert_says(&problems, &["web-0 Pending"]);
    cluster.nodes.uncordon("flags-0").await.unwrap();
}

/// The right to impersonate one user, and the rights of her group.
fn rights() -> [Value; 4] {
    let group = "rbac.authorization.k8s.io";
    let impersonate = |resource: &str, name: &str| json!({"apiGroups": [""], "resources": [resource], "resourceNames": [name], "verbs": ["impersonate"]});
    let list = |group: &str, plural: &str| json!({"apiGroups": [group], "resources": [plural], "verbs": ["list"]});
    let role = |kind: &str| json!({"apiGroup": group, "kind": kind, "name": USER});
    let metadata = json!({"name": USER, "namespace": NAMESPACE});
    [
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": USER},
            "rules": [impersonate("users", "jane"), impersonate("groups", "readers")]}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": USER},
            "roleRef": role("ClusterRole"), "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [list("", "pods"), list("apps", "statefulsets"), list("apps.kruise.io", "persistentpodstates")]}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": role("Role"), "subjects": [{"apiGroup": group, "kind": "Group", "name": "readers"}]}),
    ]
}

/// The kubeconfig names an API server that does not exist, and a user without rights.
async fn an_api_server_and_a_token_may_be_named(pool: &Pool<'_>) {
    let control_plane = &pool.cluster.control_plane;
    let path = control_plane.kubeconfig_for(VIEWER).unwrap();
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    let file = Scratch::file("flags", kubeconfig.to_string()).unwrap();
    let plugin = Plugin::new(file.path());
    let (url, token) = (control_plane.url(), control_plane.token_of(ADMIN).unwrap());
    let run = async |flags: &[&str], code: i32| {
        let answer = plugin
            .run(&[&["status", "-n", NAMESPACE][..], flags].concat())
            .await
            .unwrap();
        assert_exit(&answer, code);
        assert!(
            !answer.stdout.contains(token) && !answer.stderr.contains(token),
            "{answer:?}"
        );
        answer
    };
    assert!(
        run(&["--token", token], 2)
            .await
            .stderr
            .contains("cannot reach the API server at https://127.0.0.1:1")
    );
    assert!(
        run(&["--server", url], 2)
            .await
            .stderr
            .contains("you have no permission to")
    );
    for timeout in ["0", "30", "1m"] {
        run(
            &[
                "--server",
                url,
                "--token",
                token,
                "--request-timeout",
                timeout,
            ],
            0,
        )
        .await;
    }
    let authority = Scratch::file("authority", control_plane.authority()).unwrap();
    let authority = authority.path().to_str().unwrap();
    let bare = Scratch::file("bare", "{}").unwrap();
    for (flags, code) in [
        (&["--certificate-authority", authority][..], 0),
        (&["--insecure-skip-tls-verify"], 0),
        (&[], 2),
        (&["--certificate-authority", "/no/such/file"], 2),
    ] {
        let own = ["status", "-n", NAMESPACE, "--server", url, "--token", token];
        let answer = Plugin::new(bare.path())
            .run(&[&own[..], flags].concat())
            .await
            .unwrap();
        assert_exit(&answer, code);
        assert!(
            code == 0 || answer.stderr.contains("ertificate"),
            "{answer:?}"
        );
    }
    let late = run(
        &[
            "--server",
            url,
            "--token",
            token,
            "--request-timeout",
            "1us",
        ],
        2,
    )
    .await;
    assert!(
        late.stderr
            .contains(&format!("cannot reach the API server at {url}")),
        "{late:?}"
    );
}

async fn workloads_are_chosen(pool: &Pool<'_>) {
    let label = [
        "label",
        "statefulset",
        "web",
        "tier=back",
        "--namespace",
        NAMESPACE,
    ];
    pool.cluster.control_plane.kubectl(&label).await.unwrap();
    until(
        pool,
        &["status", "-l", "tier in (back),tier!=front"],
        0,
        |text| text.contains("web-0"),
    )
    .await;
    let invalid = ask(pool, &["status", "-l", "a b"]).await;
    assert_exit(&invalid, 2);
    assert!(invalid.stderr.contains("unable to parse"), "{invalid:?}");
    let none = ask(pool, &["status", "-l", "tier=front"]).await;
    assert_exit(&none, 2);
    assert!(
        none.stderr
            .contains("no StatefulSet has the labels tier=front"),
        "{none:?}"
    );
    assert_says(
        &ask(pool, &["status", "--problems"]).await,
        &["there is no Pod to show"],
    );
    let all = plugin(pool.cluster, ADMIN)
        .run(&["status", "-A"])
        .await
        .unwrap();
    assert_says(
        &all,
        &[
            "NAMESPACE WORKLOAD READY RECORDED PROBLEMS",
            "flags web 1/1 1 -",
        ],
    );
}
