//! Whether each link of the finished site has a target. A test in a browser sees what its pages
//! load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::contents::{folder, resolve};
use crate::links::is_external;

/// The folder of the playground, whose fragments are scenarios and not anchors.
pub const PLAYGROUND: &str = "playground";

pub fn problems(site: &Path) -> Result<Vec<String>> {
    let mut files = BTreeSet::new();
    list(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| has_extension(file, "html")) {
        let html =
            fs::read_to_string(site.join(file)).with_context(|| format!("cannot read {file}"))?;
        pages.insert(file.as_str(), page(&html));
    }
    let problems = pages.iter().flat_map(|(file, page)| {
        let of_links = page
            .links
            .iter()
            .filter_map(|link| of_link(file, link, &pages, &files));
        of_links.map(move |problem| format!("{file}: {problem}"))
    });
    Ok(problems.collect())
}

fn list(site: &Path, below: &str, files: &mut BTreeSet<String>) -> Result<()> {
    let folder = site.join(below);
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .with_context(|| format!("{} is not UTF-8", name.display()))?;
        let path = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        if entry.file_type()?.is_dir() {
            list(site, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

pub(crate) fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|found| found == extension)
}

#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Reads a page as mdBook writes it: attributes are in double quotes, and code has no tags.
fn page(html: &str) -> Page {
    let mut page = Page::default();
    for rest in html.split('<').skip(1) {
        let tag = rest.split('>').next().unwrap_or_default();
        page.anchors.extend(attribute(tag, "id"));
        if tag.starts_with("a ") {
            page.links.extend(attribute(tag, "href"));
        }
    }
    page
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(rest.split('"').next()?.replace("&amp;", "&"))
}

fn of_link(
    file: &str,
    link: &str,
    pages: &BTreeMap<&str, Page>,
    files: &BTreeSet<String>,
) -> Option<String> {
    if is_external(link) {
        return None;
    }
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => file.to_owned(),
        path => match resolve(folder(file), path) {
            Ok(target) if path.ends_with('/') => format!("{target}/index.html"),
            Ok(target) => target,
            Err(error) => return Some(format!("the link {link}: {error}")),
        },
    };
    if !files.contains(&target) {
        return Some(format!("the link {link} has no target"));
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty() && folder(&target) != PLAYGROUND)?;
    let known = pages
        .get(target.as_str())
        .is_some_and(|page| page.anchors.contains(anchor));
    (!known).then(|| format!("the link {link}: {target} has no such anchor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a site with these files.
    fn problems_of(name: &str, files: &[(&str, &str)]) -> Vec<String> {
        let site = std::env::temp_dir().join(format!("pps-site-{name}-{}", std::process::id()));
        for (file, text) in files {
            let file = site.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let found = problems(&site).unwrap();
        fs::remove_dir_all(site).unwrap();
        found
    }

    #[test]
    fn links_without_target_and_anchor_are_reported() {
        let index = r##"<a href="gone.html">x</a><a href="a.html#gone">x</a><a href="#gone">x</a><a href="../x">x</a><a href="docs/">x</a>"##;
        let found = problems_of("links", &[("index.html", index), ("a.html", "")]);
        assert_eq!(
            found,
            [
                "index.html: the link gone.html has no target",
                "index.html: the link a.html#gone: a.html has no such anchor",
                "index.html: the link #gone: index.html has no such anchor",
                "index.html: the link ../x: ../x leads out of the repository",
                "index.html: the link docs/ has no target",
            ]
        );
    }
}
