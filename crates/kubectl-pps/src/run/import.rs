//! `import`: recorded states from a file into the cluster.

mod report;
mod write;

use std::collections::BTreeSet;

use futures::StreamExt;
use pps_check::facts::Right;
use pps_core::pps::{API_VERSIONS, GROUP, PLURAL};

use super::status::hand;
use super::{file, rights};
use crate::args::{Connection, Import};
use crate::cluster::read::{Wanted, get, nodes, read_lists};
use crate::cluster::{Connected, connect};
use crate::decide::import::{
    Action, Entry, Known, MAX_FILE, Options, Plan, notes, plan, read as read_entries,
};
use crate::print::Terminal;
use crate::snapshot::{Pod, Pps, Scope, Workload};
use crate::{Failure, Outcome};

/// With more namespaces than this, all are read at once.
const MAX_READS: usize = 20;
/// How many objects are written at a time.
const WRITERS: usize = 8;

pub(super) async fn run(
    args: &Import,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let text = file::read_up_to(&args.file, MAX_FILE)?;
    let connected = connect(connection).await?;
    let options = Options {
        from_namespace: args.from_namespace.clone(),
        namespace: connection.namespace.clone(),
        default_namespace: connected.namespace.clone(),
        drop_keys: args.drop_key.clone(),
    };
    let read = read_entries(&text, &options).map_err(|flaws| report::flaws(&args.file, &flaws))?;
    drop(text);
    let style = terminal.style_of_errors();
    for note in report::left_out(&read) {
        terminal.say(&style.note(&note));
    }
    if read.entries.is_empty() {
        return Err(Failure::Refused(format!("{}: there is nothing to import", file::name(&args.file))));
    }
    let cluster = Box::pin(Cluster::read(&connected, &read.entries)).await?;
    if let Some(why) = &cluster.unseen_pods {
        if args.overwrite {
            return Err(Failure::Unreadable(format!(
                "{why}: --overwrite needs it, to leave the states of Ready Pods alone; nothing was changed"
            )));
        }
        terminal.say(&style.note(&format!("{why}: a Pod that is Ready is not recognized")));
    }
    if let Some(why) = &cluster.unseen_workloads {
        terminal.say(&style.note(&format!("{why}: a state whose Pod is not wanted is not recognized")));
    }
    let known = Known {
        pps: &cluster.pps,
        pods: cluster.pods.as_deref(),
        workloads: &cluster.workloads,
        api_version: cluster.api_version,
    };
    let plans = plan(&read.entries, known, args.overwrite);
    terminal.print(&report::table(terminal.style(), &plans))?;
    for note in report::details(&plans, &hand(connection, &connected.namespace)) {
        terminal.say(&note.shown(style));
    }
    // The right to list nodes is needed for nothing else.
    if plans.iter().any(|plan| !plan.changes.is_empty())
        && let Some(nodes) = nodes(&connected.client).await
    {
        for note in notes(&plans, &read.entries, known, &nodes) {
            terminal.say(&style.note(&note));
        }
    }
    drop(read);
    let planned = report::outcome(&plans);
    if !plans.iter().any(Plan::writes) {
        terminal.say("nothing to do");
        return Ok(planned);
    }
    rights::require(&connected.client, &needed(&plans)).await?;
    if args.consent.dry_run {
        terminal.say("dry run: nothing was changed");
        return Ok(planned);
    }
    if !terminal.ask(&report::question(&plans), args.consent)? {
        terminal.say("nothing was changed");
        return Ok(Outcome::NotWell);
    }
    let writer = write::Writer {
        client: &connected.client,
        terminal,
        api_version: cluster.api_version,
        overwrite: args.overwrite,
    };
    let done: Vec<write::Done> = futures::stream::iter(plans.iter().filter(|plan| plan.writes()))
        .map(|plan| writer.write(plan))
        .buffer_unordered(WRITERS)
        .collect()
        .await;
    report::done(terminal, &done)?;
    Ok(planned)
}

/// What is needed, once for each namespace. With very many namespaces the writes themselves will tell.
fn needed(plans: &[Plan]) -> Vec<(Right, &'static str)> {
    let mut creates = BTreeSet::new();
    let mut writes = BTreeSet::new();
    for plan in plans.iter().filter(|plan| plan.writes()) {
        if matches!(plan.action, Action::Create { .. }) {
            creates.insert(&plan.namespace);
        }
        if !plan.changes.is_empty() {
            writes.insert(&plan.namespace);
        }
    }
    let create = |namespace: &&String| {
        (Right::new("create", GROUP, PLURAL).within(namespace), "create PersistentPodStates")
    };
    let get = |namespace: &&String| {
        (Right::new("get", GROUP, PLURAL).within(namespace), "read an object again before it is written")
    };
    let write = |namespace: &&String| {
        let status = Right::new("patch", GROUP, &format!("{PLURAL}/status"));
        (status.within(namespace), "write recorded states")
    };
    creates
        .iter()
        .take(MAX_READS)
        .map(create)
        .chain(writes.iter().take(MAX_READS).flat_map(|namespace| [get(namespace), write(namespace)]))
        .collect()
}

/// What is in the cluster already.
struct Cluster {
    pps: Vec<Pps>,
    pods: Option<Vec<Pod>>,
    /// Why Pods are not known.
    unseen_pods: Option<String>,
    workloads: Vec<Workload>,
    /// Why not all StatefulSets are known.
    unseen_workloads: Option<String>,
    api_version: &'static str,
}

impl Cluster {
    async fn read(connected: &Connected, entries: &[Entry]) -> Result<Self, Failure> {
        let namespaces: BTreeSet<&String> = entries.iter().map(|entry| &entry.namespace).collect();
        let scopes: Vec<Scope> = if namespaces.len() > MAX_READS {
            vec![Scope::All]
        } else {
            namespaces.into_iter().map(|namespace| Scope::Namespace(namespace.clone())).collect()
        };
        let mut cluster = Self {
            pps: Vec::new(),
            pods: None,
            unseen_pods: None,
            workloads: Vec::new(),
            unseen_workloads: None,
            api_version: API_VERSIONS[0],
        };
        let wanted = Wanted { pods: true, workloads: true, ..Wanted::default() };
        let mut pods = Vec::new();
        for scope in &scopes {
            // The other namespaces of a backup are imported nevertheless.
            let snapshot = Box::pin(read_lists(&connected.client, scope, wanted)).await?;
            for unseen in snapshot.relevant_unseen() {
                if unseen.what.contains(PLURAL) {
                    return Err(Failure::Unreadable(format!("{unseen}; nothing was changed")));
                }
                let is_of_workloads = unseen.what.contains("statefulsets");
                let why =
                    if is_of_workloads { &mut cluster.unseen_workloads } else { &mut cluster.unseen_pods };
                *why = Some(unseen.to_string());
            }
            cluster.pps.extend(snapshot.pps);
            cluster.workloads.extend(snapshot.workloads);
            pods.extend(snapshot.pods);
        }
        cluster.pods = Some(pods).filter(|_| cluster.unseen_pods.is_none());
        cluster.api_version = served(connected).await?;
        Ok(cluster)
    }
}

/// The version of the API in which objects are created.
async fn served(connected: &Connected) -> Result<&'static str, Failure> {
    let path = format!("/apis/{GROUP}");
    let group = get(&connected.client, Right::new("get", "", &path), &path).await?.unwrap_or_default();
    let versions = group["versions"].as_array();
    let is_served =
        |wanted: &str| versions.into_iter().flatten().any(|version| version["groupVersion"] == *wanted);
    Ok(API_VERSIONS.into_iter().find(|version| is_served(version)).unwrap_or(API_VERSIONS[0]))
}
