//! What users see: the whole product on a real control plane.
//!
//! Each test is one cluster with many scenarios, each of which has a namespace and Nodes of its own.
//! `PPS_E2E_ONLY=word` runs only the scenarios whose name has that word in it; `PPS_E2E_SEED=n`
//! repeats what is random.

pub(crate) mod coming_back;
mod custom_kinds;
mod each_right;
pub(crate) mod generated;
mod interruptions;
mod leadership;
mod lookup;
mod nodes_that_go;
mod object_size;
mod objects;
mod openkruise;
mod passing;
mod recording;
pub(crate) mod rights;

use pps_e2e::{
    cluster::{Cluster, repository_file},
    control_plane::User,
};

use crate::support;

#[tokio::test]
async fn pods_come_back() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.start().await.unwrap();
    let result = support::run(scenarios![&cluster;
        coming_back::a_deleted_pod_returns_to_its_node_and_address,
        coming_back::a_rolling_update_leaves_every_pod_at_home,
        coming_back::a_cordoned_node_is_left_and_not_returned_to,
        coming_back::a_required_zone_is_never_left,
        coming_back::a_scaled_down_workload_forgets_once_its_pods_are_gone,
        coming_back::when_deleted_brings_scaled_up_pods_home,
        coming_back::ordinals_that_start_elsewhere_are_recorded,
        passing::pods_without_stable_names_cost_no_host_call,
        passing::the_policy_leaves_its_own_output_alone,
        passing::unknown_fields_go_through,
        passing::everything_else_in_a_pod_stays_as_it_was,
        recording::first_pods_are_left_alone_and_recorded,
        recording::what_changes_later_is_recorded_again,
        recording::a_new_topology_key_is_recorded,
    ])
    .await;
    rights::assert_used_as_granted(&cluster);
    result.unwrap();
}

#[tokio::test]
async fn objects_are_generated() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.start().await.unwrap();
    let first = support::run(scenarios![&cluster;
        generated::an_annotated_workload_gets_an_object,
        generated::a_generated_object_goes_with_its_workload,
        generated::what_is_no_longer_asked_for_is_deleted_and_what_is_missing_made_again,
        generated::a_foreign_object_of_that_name_is_left_alone,
        generated::a_foreign_object_for_the_workload_is_enough,
        generated::an_orphaning_delete_costs_nothing,
        generated::a_malformed_annotation_is_told,
    ])
    .await;
    // These concern the whole cluster.
    let second = support::run_in_turn(scenarios![&cluster;
        generated::what_somebody_set_stays,
        recording::of_two_objects_the_older_governs,
        recording::the_object_of_the_workloads_own_name_governs,
        objects::what_cannot_work_is_refused,
        lookup::a_failed_lookup_is_told_and_mends_itself,
        lookup::a_failed_lookup_may_be_accepted,
    ])
    .await;
    rights::assert_used_as_granted(&cluster);
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn interruptions_lose_nothing() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.start().await.unwrap();
    let result = support::run_in_turn(scenarios![&cluster;
        interruptions::kills_in_the_middle_of_a_rollout,
        interruptions::a_workload_created_anew_while_the_sidecar_was_down,
        interruptions::what_others_write_survives,
        interruptions::a_clean_end_writes_what_is_known,
        interruptions::readiness_follows_the_api_server,
    ])
    .await;
    rights::assert_used_as_granted(&cluster);
    result.unwrap();
}

#[tokio::test]
async fn one_of_two_leads() {
    let rights = repository_file("deploy/base/rbac.yaml");
    let cluster = Cluster::builder()
        .control_plane(|options| options.audit_log = true)
        .user(User::new(leadership::SECOND))
        .rbac(rights, leadership::SECOND, &["pps-sidecar", "pps-sidecar-custom-kinds"])
        .product();
    let cluster = cluster.start().await.unwrap();
    let first = support::run_in_turn(scenarios![&cluster;
        leadership::a_standby_takes_over_when_the_leader_is_killed,
        leadership::a_clean_end_hands_over_at_once,
        leadership::a_leader_that_was_stopped_writes_nothing_stale,
    ])
    .await;
    rights::assert_used_as_granted(&cluster);
    let second = support::run_in_turn(scenarios![&cluster;
        leadership::who_may_not_use_the_lease_says_so_and_writes_nothing,
    ])
    .await;
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn every_right_is_needed() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.sidecar(each_right::sidecar()).start().await.unwrap();
    support::run_in_turn(scenarios![&cluster; each_right::without_it_something_is_not_done]).await.unwrap();
}

#[tokio::test]
async fn with_the_definition_of_openkruise() {
    let definition = openkruise::definition();
    let cluster = Cluster::builder().crd(definition.path()).control_plane(|options| options.audit_log = true);
    let cluster = cluster.product().start().await.unwrap();
    let result = support::run_in_turn(scenarios![&cluster; openkruise::pruned_fields_are_not_missed]).await;
    rights::assert_used_as_granted(&cluster);
    result.unwrap();
}

#[tokio::test]
async fn beside_the_manager_of_openkruise() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.sidecar(openkruise::leaving()).start().await.unwrap();
    let result =
        support::run_in_turn(scenarios![&cluster; openkruise::recording_is_left_to_its_manager]).await;
    rights::assert_used_as_granted(&cluster);
    result.unwrap();
}

#[tokio::test]
async fn custom_kinds_come_and_go() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.start().await.unwrap();
    let _operator = custom_kinds::operator(&cluster);
    // All of them change what concerns the whole cluster.
    let first = support::run_in_turn(scenarios![&cluster;
        custom_kinds::an_openkruise_stateful_set_needs_no_list,
        custom_kinds::a_kind_is_taken_up_when_it_is_defined,
        custom_kinds::a_kind_that_is_no_longer_listed_is_left_as_it_is,
        custom_kinds::a_malformed_list_changes_nothing,
        custom_kinds::a_definition_that_goes_is_let_go,
    ])
    .await;
    rights::assert_used_as_granted_with(&cluster, custom_kinds::GRANTED);
    let second = support::run_in_turn(scenarios![&cluster;
        custom_kinds::a_kind_that_may_not_be_watched_holds_nobody_up,
    ])
    .await;
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn nodes_come_and_go() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.sidecar(nodes_that_go::sidecar()).start().await.unwrap();
    let first = support::run(scenarios![&cluster;
        nodes_that_go::a_pod_whose_node_is_gone_starts_anew_elsewhere,
        nodes_that_go::a_pod_that_may_still_get_a_node_is_not_deleted,
        nodes_that_go::a_pod_whose_last_node_goes_later_is_excused_anew,
        nodes_that_go::what_is_to_be_kept_waits_for_its_node,
        nodes_that_go::a_node_that_comes_back_in_time_costs_nothing,
        nodes_that_go::a_node_that_is_only_not_ready_or_cordoned_is_not_gone,
        nodes_that_go::a_state_that_a_ready_pod_backs_stays,
    ])
    .await;
    let second =
        support::run_in_turn(scenarios![&cluster; nodes_that_go::a_restart_begins_the_grace_period_anew])
            .await;
    rights::assert_used_as_granted(&cluster);
    let third = support::run_in_turn(scenarios![&cluster;
        nodes_that_go::what_cannot_be_confirmed_is_not_dropped,
        nodes_that_go::a_pod_is_deleted_late_if_it_could_not_be_at_once,
    ])
    .await;
    first.unwrap();
    second.unwrap();
    third.unwrap();
}

#[tokio::test]
async fn objects_grow_too_large() {
    let cluster = Cluster::builder().control_plane(|options| options.audit_log = true).product();
    let cluster = cluster.start().await.unwrap();
    let result =
        support::run_in_turn(scenarios![&cluster; object_size::an_object_that_is_full_warns_and_goes_on])
            .await;
    rights::assert_used_as_granted(&cluster);
    result.unwrap();
}
