//! The whole product on a real control plane, as users see it.
//!
//! Each test runs many scenarios on one cluster. Each scenario has its own namespace and Nodes.
//! `PPS_E2E_ONLY=word` runs only the scenarios whose name contains that word. `PPS_E2E_SEED=n`
//! repeats the random numbers of a run.

pub(crate) mod custom_kinds;
mod fallback;
pub(crate) mod generated;
mod interruptions;
mod leadership;
mod least_privilege;
mod lookup;
mod node_deletion;
mod object_size;
mod one_namespace;
pub(crate) mod openkruise;
mod operator;
mod passthrough;
pub(crate) mod permissions;
mod protection;
mod recording;
pub(crate) mod rescheduling;
mod validation;

use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    control_plane::User,
    repository::repository_file,
};

use crate::support;

#[tokio::test]
async fn pods_return_to_their_nodes() {
    let cluster = Cluster::builder()
        .control_plane(protection::control_plane)
        .product();
    let mut cluster = cluster
        .user(User::new(one_namespace::ACCOUNT))
        .start()
        .await
        .unwrap();
    let mut results = Vec::new();
    let first = support::run(scenarios![&cluster;
        generated::deletes_a_generated_object_with_its_workload,
        generated::generates_an_object_for_an_annotated_workload,
        generated::keeps_states_across_an_orphaning_delete,
        rescheduling::returns_a_deleted_pod_to_its_node_and_address,
        rescheduling::keeps_every_pod_on_its_node_during_a_rolling_update,
        rescheduling::leaves_a_cordoned_node_and_stays_on_the_new_one,
        rescheduling::keeps_a_pod_pending_rather_than_leave_its_required_zone,
        rescheduling::when_deleted_retention_returns_pods_after_scale_up,
        rescheduling::records_pods_whose_ordinals_do_not_start_at_0,
        rescheduling::restored_states_serve_the_next_workload_of_the_name,
        passthrough::makes_no_host_call_for_pods_without_stable_names,
        passthrough::preserves_unknown_fields,
        passthrough::changes_nothing_else_in_a_pod,
        recording::records_first_pods_without_changing_them,
        recording::records_later_changes_of_labels_and_annotations,
        recording::records_and_injects_in_the_spelling_of_v1beta1,
    ]);
    results.push(first.await);
    // These change settings or permissions of the whole cluster.
    let second = support::run_in_turn(scenarios![&cluster;
        generated::keeps_fields_that_users_set,
        validation::refuses_invalid_objects_and_allows_their_deletion,
        lookup::refuses_pods_when_the_lookup_fails_and_recovers,
        lookup::accepts_pods_when_the_lookup_fails_if_configured,
    ]);
    results.push(second.await);
    permissions::assert_used_as_granted(&cluster);
    let third =
        support::run_in_turn(scenarios![&cluster; generated::reports_a_refused_object_once]);
    results.push(third.await);

    // The sidecar would say of each object in which scope that is, and write the statuses from
    // which the policy decides.
    cluster
        .sidecar()
        .unwrap()
        .terminate(support::TIMEOUT)
        .await
        .unwrap();
    let apart = support::run_in_turn(scenarios![&cluster;
        one_namespace::records_with_rights_in_one_namespace_alone,
    ]);
    results.push(apart.await);
    // The policy decides about every deletion; then the API server asks it only where a label is
    // set.
    for _ in 0..2 {
        let protected = support::run(scenarios![&cluster;
            protection::refuses_to_delete_protected_objects,
            protection::lets_the_garbage_collector_delete_protected_objects,
            protection::lets_a_namespace_with_protected_objects_be_deleted,
        ]);
        results.push(protected.await);
        protection::install_deployed_policy(&mut cluster).await;
    }

    openkruise::install_definition(&cluster).await;
    let last = support::run_in_turn(
        scenarios![&cluster; openkruise::works_when_the_api_server_prunes_fields],
    );
    results.push(last.await);
    results.into_iter().for_each(Result::unwrap);
}

#[tokio::test]
async fn interruptions_lose_no_state() {
    let cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .product();
    let cluster = cluster.start().await.unwrap();
    let result = support::run_in_turn(scenarios![&cluster;
        interruptions::clears_states_of_a_workload_recreated_while_down,
        interruptions::preserves_concurrent_writes_of_others,
        object_size::reports_a_full_object_and_records_others,
        interruptions::writes_pending_changes_before_it_terminates,
        openkruise::leaves_recording_to_openkruises_manager,
    ])
    .await;
    permissions::assert_used_as_granted(&cluster);
    result.unwrap();
}

#[tokio::test]
async fn only_the_leader_writes_of_all_kinds() {
    let roles = repository_file("deploy/base/rbac.yaml");
    let cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .user(User::new(leadership::SECOND))
        .rbac(
            roles,
            leadership::SECOND,
            &["pps-sidecar", "pps-sidecar-custom-kinds"],
        )
        .product()
        .sidecar(custom_kinds::sidecar());
    let cluster = cluster.start().await.unwrap();
    let leaders = support::run_in_turn(scenarios![&cluster;
        leadership::standby_takes_over_when_the_leader_is_killed,
        leadership::terminating_leader_hands_over_at_once,
        leadership::resumed_leader_writes_nothing_stale,
    ])
    .await;
    let operator = custom_kinds::operator(&cluster);
    // All of them change the whitelist or definitions, which concern the whole cluster.
    let kinds = support::run_in_turn(scenarios![&cluster;
        custom_kinds::supports_openkruise_stateful_sets_without_a_whitelist,
        custom_kinds::watches_a_kind_as_soon_as_it_is_defined,
        custom_kinds::stops_watching_a_kind_whose_definition_is_deleted,
        custom_kinds::wants_the_names_that_a_workload_lists,
        custom_kinds::reports_an_operator_that_compares_the_affinity,
    ])
    .await;
    permissions::assert_used_as_granted_with(&cluster, custom_kinds::GRANTED);
    drop(operator);
    let lease = support::run_in_turn(scenarios![&cluster;
        leadership::reports_missing_lease_permissions_and_writes_nothing,
    ])
    .await;
    [leaders, kinds, lease].into_iter().for_each(Result::unwrap);
}

#[tokio::test]
async fn every_permission_is_needed() {
    let mut cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .product();
    for user in least_privilege::users() {
        cluster = cluster.user(User::new(user));
    }
    let cluster = cluster.rbac(repository_file(permissions::EVICTION), SIDECAR, &[]);
    let cluster = cluster
        .sidecar(least_privilege::sidecar())
        .start()
        .await
        .unwrap();
    support::run(scenarios![&cluster;
        least_privilege::is_not_ready_without_any_one_permission_to_read,
        least_privilege::fails_visibly_without_any_other_permission,
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn a_requirement_ends_after_its_time() {
    let cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .product();
    let cluster = cluster.rbac(repository_file(permissions::EVICTION), SIDECAR, &[]);
    let cluster = cluster.sidecar(fallback::sidecar()).start().await.unwrap();
    let first = support::run(scenarios![&cluster;
        fallback::gives_up_a_lost_zone_one_pod_at_a_time,
        fallback::keeps_the_zone_while_one_of_its_nodes_takes_pods,
        fallback::keeps_the_place_of_a_pod_that_its_volume_pins,
    ])
    .await;
    let second = support::run_in_turn(scenarios![&cluster;
        fallback::evicts_a_pod_whose_place_an_earlier_process_has_given_up,
    ])
    .await;
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn follows_the_node_deletion_policy() {
    let cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .product();
    let cluster = cluster.rbac(repository_file(permissions::EVICTION), SIDECAR, &[]);
    let cluster = cluster
        .sidecar(node_deletion::sidecar())
        .start()
        .await
        .unwrap();
    let first = support::run(scenarios![&cluster;
        node_deletion::forgets_states_after_the_grace_period,
        node_deletion::evicts_a_pod_once_no_node_matches_for_the_grace_period,
    ])
    .await;
    let second = support::run_in_turn(scenarios![&cluster;
        node_deletion::starts_the_grace_period_again_after_a_restart,
        node_deletion::reports_a_pod_that_it_may_not_evict,
    ])
    .await;
    permissions::assert_used_as_granted(&cluster);
    first.unwrap();
    second.unwrap();
}
