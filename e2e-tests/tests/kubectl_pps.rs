//! `kubectl pps` on a real control plane: what each command answers, and that Pods really move.
//!
//! All scenarios share a cluster; each has its own namespace and Nodes. The last ones run without
//! the sidecar.

mod answers;
mod command_line;
mod explain;
mod files;
mod flags;
mod forget;
mod move_pod;
mod move_several;
mod picture;
mod rights;
mod simulate;
mod status;

use pps_e2e::{cluster::Cluster, control_plane::User};

use crate::support::{self, TIMEOUT};

#[tokio::test]
async fn commands_do_what_they_say() {
    let mut cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .product();
    for user in [
        answers::VIEWER,
        move_pod::DEVELOPER,
        simulate::USER,
        rights::USER,
        files::USER,
        flags::USER,
    ] {
        cluster = cluster.user(User::new(user));
    }
    let cluster = cluster.start().await.unwrap();
    // It shows nodes by their names, so there must be no others.
    let picture =
        support::run_in_turn(scenarios![&cluster; picture::the_readme_has_a_picture_of_the_plugin]);
    picture.await.unwrap();
    let mut scenarios = move_several::scenarios(&cluster);
    scenarios.extend(move_pod::scenarios(&cluster));
    scenarios.extend(answers::scenarios(&cluster));
    scenarios.extend(simulate::scenarios(&cluster));
    scenarios.extend(scenarios![&cluster;
        rights::the_documented_role_is_what_the_commands_use,
        flags::a_user_who_is_impersonated_is_asked_for_and_named_again,
        files::pods_return_to_their_nodes_in_a_restored_namespace,
    ]);
    let result = support::run(scenarios).await;

    // Half an installation.
    cluster.sidecar().unwrap().terminate(TIMEOUT).await.unwrap();
    let mut scenarios = files::scenarios(&cluster);
    scenarios.extend(scenarios![&cluster;
        status::nothing_is_recorded_without_a_sidecar,
        explain::a_refused_pod_is_explained,
        move_several::no_place_is_given_up_while_nobody_records,
    ]);
    let without_sidecar = support::run(scenarios).await;
    // These change the definition.
    let without_definition = support::run_in_turn(scenarios![&cluster;
        files::many_states_are_packed_if_the_definition_keeps_them,
        forget::states_that_a_definition_hides_are_not_lost,
        answers::nothing_is_known_without_a_definition,
    ])
    .await;
    [result, without_sidecar, without_definition]
        .into_iter()
        .for_each(Result::unwrap);
}
