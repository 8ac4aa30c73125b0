//! `export`: recorded states into a file.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use futures::{StreamExt, TryStreamExt, future};
use pps_manifest::{to_yaml, yaml};
use serde_json::{Value, json};

use super::namespaces;
use super::states::Address;
use crate::args::{Connection, Export};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::export::{chosen, export};
use crate::render::export as show;
use crate::render::{Terminal, json_as_yaml};
use crate::snapshot::Pps;
use crate::{CommandResult, Failure, Outcome};

const READERS: usize = 8;

pub(super) async fn run(
    args: &Export,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let namespaces = namespaces(args.all.all_namespaces, &connected.namespace);
    let snapshot = Box::pin(read(&connected.client, &namespaces, Wanted::default())).await?;
    if let Some(unread) = snapshot.unread.first() {
        // A file that silently lacks objects is no backup.
        return Err(unread.into());
    }
    let chosen = chosen(&snapshot.pps, &args.names)
        .map_err(|missing| show::missing(&missing, &namespaces))?;
    // The list is kept without managed fields, and only these show that a definition hides states.
    let whole = async |pps: &Pps| {
        let api_version = pps.object()["apiVersion"].as_str().unwrap_or_default();
        Address::new(pps.namespace(), pps.name(), api_version)
            .find(&connected.client)
            .await
    };
    let objects = futures::stream::iter(chosen).map(whole).buffered(READERS);
    // An object that was deleted since the list is left out.
    let objects: Vec<Value> = objects.try_filter_map(future::ok).try_collect().await?;
    let exported = export(&objects);
    let text = text(&json!({"apiVersion": "v1", "kind": "List", "items": exported.objects}));
    match &args.file {
        Some(file) => write(file, &text)?,
        None => terminal.print(&text)?,
    }
    for left_out in &exported.left_out {
        terminal.error(&show::left_out(left_out));
    }
    terminal.say(&show::exported(&exported, args.file.as_deref()));
    Ok(if exported.left_out.is_empty() {
        Outcome::Well
    } else {
        Outcome::NotWell
    })
}

/// YAML that is read as exactly this list. Kubernetes reads YAML 1.1, in which `1_000` is a number:
/// such a text needs the quotes of JSON, which is YAML too.
fn text(list: &Value) -> String {
    let text = to_yaml(list);
    match yaml::parse_up_to(&text, usize::MAX).as_deref() {
        Ok([document]) if document.value == *list => text,
        _ => json_as_yaml(list),
    }
}

/// Writes a new file that only its owner may read: recorded annotations may be internal.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut created = options
        .open(file)
        .map_err(|error| show::unwritten(file, &error))?;
    created
        .write_all(text.as_bytes())
        .and_then(|()| created.sync_all())
        .map_err(|error| {
            // Half a backup would be read as a whole one.
            let _ = fs::remove_file(file);
            show::unwritten(file, &error)
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_file_is_read_as_what_was_written(
            values in prop::collection::btree_map("[ -~äö]{0,12}", "[ -~äö\\n\u{9b}]{0,12}|[0-9_:.exyno]{1,6}", 0..4)
        ) {
            let list = json!(BTreeMap::from([("items", values)]));
            let read = yaml::parse_up_to(&text(&list), usize::MAX).unwrap();
            prop_assert_eq!(&read[0].value, &list);
        }
    }

    #[test]
    fn a_file_that_exists_is_never_replaced_and_only_its_owner_may_read_a_new_one() {
        let folder =
            std::env::temp_dir().join(format!("kubectl-pps-export-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("states.yaml");
        write(&file, "one").unwrap();
        let refused = write(&file, "two").unwrap_err();
        assert!(
            refused.to_string().contains("exists: name another file"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        assert!(write(&folder.join("none/states.yaml"), "x").is_err());
        assert!(matches!(
            write(Path::new("/dev/null"), "x"),
            Err(Failure::Refused(_))
        ));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
