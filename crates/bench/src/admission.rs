//! Admissions through PolicyServer with a real API server, by the number of recorded Pods, beside what any policy costs.

mod endurance;
mod floor;
pub(crate) mod form;
pub(crate) mod host;
mod lane;
mod load;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pps_e2e::cluster::{POLICY_SERVER, pps_resource};
use pps_e2e::control_plane::{self, ControlPlane, User, program};
use pps_e2e::manifests;
use pps_e2e::repository::{policy_path, repository_file};
use pps_e2e::supervisor::Supervisor;
use serde_json::{Value, json};

use self::floor::Floor;
use self::form::Form;
use self::host::{Host, HostKind};
use self::lane::{Lane, recorded_states, workload_name};
use self::load::{Gets, Load, Servers, percentile, run_turn};
use crate::fixture::NAMESPACE;
use crate::report::{count, millis, ratio, table};

/// The ids of the policies in the PolicyServer.
const PRODUCT: &str = "clusterwide-persistent-pod-state";
const FLOOR: &str = "clusterwide-floor";
const FLOOR_READ: &str = "clusterwide-floor-read";
/// The object that the floor policy reads: it has no recorded states.
const EMPTY: &str = "empty";
/// The forms and sizes of the objects. One with 10,000 states in the plain form would be larger than etcd stores.
const OBJECTS: [(Form, usize); 7] = [
    (Form::Plain, 10),
    (Form::Plain, 100),
    (Form::Plain, 1_000),
    (Form::Compact, 10),
    (Form::Compact, 100),
    (Form::Compact, 1_000),
    (Form::Compact, 10_000),
];
/// The lanes with which others are compared: the floor with one read, and an object with 10 states, which is plain.
const READ_LANE: usize = 1;
const SMALL_LANE: usize = 2;
/// Each lane has a turn of this length in each round.
const TURN: Duration = Duration::from_secs(1);
const ROUNDS: usize = 10;

/// The cluster, the host and what is sent to it.
struct World {
    control_plane: ControlPlane,
    host: Host,
    servers: Servers,
    lanes: Vec<Arc<Lane>>,
}

/// All tables. With a number of admissions, also sends so many in a row.
pub(crate) async fn measure(admissions: Option<usize>) -> Result<Vec<(&'static str, String)>> {
    let world = World::start().await?;
    let mut tables = Vec::new();
    let measured = async {
        for (name, workers) in [("admission one at a time", 1), ("admission eight at a time", 8)] {
            let text = measure_sizes(&world, workers).await?;
            // A later failure must not lose it.
            eprintln!("{text}\n");
            tables.push((name, text));
        }
        if let Some(admissions) = admissions {
            tables.extend(endurance::measure(&world, admissions).await?);
        }
        anyhow::Ok(())
    };
    let outcome = measured.await;
    let kind = world.host.kind;
    let supervisor = world.control_plane.supervisor().clone();
    drop(world);
    supervisor.close()?;
    outcome?;
    if kind == HostKind::StandIn {
        // The documents have the tables of the real one.
        for (name, text) in tables.drain(..) {
            println!("{name}, through the stand-in:\n\n{text}\n");
        }
    }
    Ok(tables)
}

impl World {
    async fn start() -> Result<Self> {
        let supervisor = Arc::new(Supervisor::start()?);
        let options = control_plane::Options { users: vec![User::new(POLICY_SERVER)], ..Default::default() };
        let control_plane = ControlPlane::start(supervisor, options).await?;
        for name in [program::CONTROLLER_MANAGER, program::SCHEDULER] {
            control_plane.stop(name).await?;
        }
        let client = control_plane.client();
        manifests::apply_file(&client, &repository_file("deploy/base/crd.yaml")).await?;
        let roles = repository_file("deploy/base/rbac.yaml");
        manifests::apply_rbac_from(&client, &roles, POLICY_SERVER, &["pps-policy"]).await?;
        manifests::ensure_namespace(&client, NAMESPACE).await?;
        let api = kube::Api::namespaced_with(client, NAMESPACE, &pps_resource());
        form::create(&api, EMPTY, EMPTY, &json!({})).await?;
        let mut lanes = vec![
            Lane::floor("floor: a policy that accepts unread", FLOOR),
            Lane::floor("floor with one read", FLOOR_READ),
        ];
        for (form, pods) in OBJECTS {
            let workload = workload_name(form, pods);
            let status = form.status(&recorded_states(&workload, pods)?);
            form::create(&api, &workload, &workload, &status).await?;
            let title = format!("{} recorded, {}", count(pods), form.title());
            lanes.push(Lane::recorded(title, PRODUCT, &workload, pods)?);
        }
        let policies = policies(control_plane.folder())?;
        // The API server shows no counter before it has counted something.
        api.get(EMPTY).await?;
        let host = Host::start(&control_plane, POLICY_SERVER, &policies).await?;
        let servers = Servers::new(&control_plane, &host)?;
        let lanes = lanes.into_iter().map(Arc::new).collect();
        Ok(Self { control_plane, host, servers, lanes })
    }
}

impl World {
    /// The host and the API server, for headers.
    fn title(&self) -> String {
        let version = self.control_plane.version();
        format!("{}, Kubernetes {}.{}", self.host.kind.title(), version.major, version.minor)
    }
}

/// The product's policy and the two floors, installed by `ClusterAdmissionPolicy` objects.
fn policies(folder: &Path) -> Result<Vec<Value>> {
    let write = |name: &str, wasm: &[u8]| -> Result<String> {
        let path = folder.join(format!("{name}.wasm"));
        fs::write(&path, wasm)?;
        Ok(format!("file://{}", path.display()))
    };
    let product = fs::read(policy_path()).context("the policy (`make policy.wasm`)")?;
    let modules = [
        (PRODUCT, product, true),
        (FLOOR, Floor::Accept.module(NAMESPACE, EMPTY)?, false),
        (FLOOR_READ, Floor::ReadOnce.module(NAMESPACE, EMPTY)?, false),
    ];
    let install = |(id, wasm, mutating): (&str, Vec<u8>, bool)| {
        let name = id.strip_prefix("clusterwide-").context("not the id of a cluster-wide policy")?;
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]);
        let resources = ["v1alpha1", "v1beta1"].map(|version| {
            json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "PersistentPodState"})
        });
        Ok(json!({"metadata": {"name": name}, "spec": {"module": write(name, &wasm)?, "mutating": mutating,
            "rules": rules, "contextAwareResources": resources}}))
    };
    modules.into_iter().map(install).collect()
}

/// One table: a row for each lane.
async fn measure_sizes(world: &World, workers: usize) -> Result<String> {
    let World { host, servers, lanes, .. } = world;
    let (mut loads, mut gets) = (Vec::new(), Vec::new());
    // The first round warms up all parts, and is counted by the API server.
    for lane in lanes {
        let before = servers.gets().await?;
        let load = run_turn(host, servers, lane, workers, TURN).await?;
        let read = servers.gets().await?.zip(before).map(|(after, before)| after.since(before));
        let expected = if lane.policy == FLOOR { 0 } else { load.times.len() as u64 };
        let made = read.map_or(expected, |read| read.count);
        ensure!(load.errors > 0 || made == expected, "{}: {made} gets, not {expected}", lane.title);
        gets.push(read);
        loads.push(Load { errors: load.errors, first_error: load.first_error, ..Load::default() });
    }
    for round in 1..=ROUNDS {
        eprintln!("  {workers} at a time: round {round} of {ROUNDS}");
        for (lane, load) in lanes.iter().zip(&mut loads) {
            load.add(run_turn(host, servers, lane, workers, TURN).await?);
        }
    }
    let text = size_table(world, &mut loads, &gets, workers);
    if let Some(error) = loads.iter().find_map(|load| load.first_error.as_ref()) {
        bail!("some answers were wrong:\n{text}\nThe first one: {error}");
    }
    Ok(text)
}

fn size_table(world: &World, loads: &mut [Load], gets: &[Option<Gets>], workers: usize) -> String {
    let medians: Vec<Duration> = loads.iter_mut().map(|load| percentile(&mut load.times, 50)).collect();
    let api_server = |load: &Load| load.each(load.api_server);
    let small = api_server(&loads[SMALL_LANE]);
    let mut rows = Vec::new();
    for (index, lane) in world.lanes.iter().enumerate() {
        let load = &mut loads[index];
        let p99 = percentile(&mut load.times, 99);
        let compared = |value: Duration, base: Duration| ratio(value.as_secs_f64() / base.as_secs_f64());
        let bytes = gets[index].map(|gets| count(gets.bytes / gets.count.max(1)));
        rows.push(vec![
            lane.title.clone(),
            count(load.times.len()),
            fine_millis(medians[index]),
            compared(medians[index], medians[READ_LANE]),
            fine_millis(p99),
            fine_millis(api_server(load)),
            if index < SMALL_LANE { String::new() } else { compared(api_server(load), small) },
            fine_millis(load.each(load.host)),
            bytes.unwrap_or_else(|| "not counted".to_owned()),
            load.errors.to_string(),
        ]);
    }
    let number = if workers == 1 { "one".to_owned() } else { workers.to_string() };
    let first = format!("{}, {number} at a time", world.title());
    let header = [
        first.as_str(),
        "admissions",
        "p50",
        "÷ floor with one read",
        "p99",
        "API server CPU, each",
        "÷ at 10, plain",
        "host CPU, each",
        "bytes read, each",
        "errors",
    ];
    table(&header, rows)
}

/// Milliseconds with two digits: most are small.
fn fine_millis(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{:.2} ms", time.as_secs_f64() * 1e3)
    } else {
        millis(time)
    }
}
