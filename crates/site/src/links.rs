//! Where the links of a document lead on the site.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use mdbook_markdown::pulldown_cmark::{CowStr, Event, OffsetIter, Tag};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

use crate::contents::{FOLDER, folder, on_site, resolve};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Missing,
}

/// What the links of a document may lead to.
pub struct Targets<'a> {
    pub pages: BTreeSet<&'a str>,
    pub repository: &'a str,
    /// The branch, tag or commit that links to the Git host name.
    pub revision: &'a str,
    pub kind: &'a dyn Fn(&str) -> Kind,
}

/// A document whose links lead to the right places on the site.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    pub markdown: String,
    /// The files that the document shows or links to and that the site has to contain.
    pub files: BTreeSet<String>,
}

/// The events of a document with their positions, as the site reads it.
pub(crate) fn events(
    markdown: &str,
) -> OffsetIter<'_, mdbook_markdown::pulldown_cmark::DefaultBrokenLinkCallback> {
    let mut options = MarkdownOptions::default();
    options.smart_punctuation = false;
    options.definition_lists = false;
    new_cmark_parser(markdown, &options).into_offset_iter()
}

pub(crate) fn line_at(markdown: &str, position: usize) -> usize {
    markdown[..position].matches('\n').count() + 1
}

/// Makes the links of a document lead to the site's pages, and to the Git host for all other files.
pub fn rewrite(file: &str, markdown: &str, targets: &Targets<'_>) -> Result<Rewritten> {
    let mut files = BTreeSet::new();
    let mut changes: Vec<Change> = Vec::new();
    for (event, range) in events(markdown) {
        let link = match event {
            Event::Start(Tag::Link { dest_url, .. }) => Link {
                kind: LinkKind::Anchor,
                url: dest_url,
            },
            Event::Start(Tag::Image { dest_url, .. }) => Link {
                kind: LinkKind::Image,
                url: dest_url,
            },
            _ => continue,
        };
        let line = line_at(markdown, range.start);
        let place = format!("{file}:{line}: the link {}", link.url);
        match target(file, &link, targets).with_context(|| place.clone())? {
            Target::Unchanged => {}
            Target::Copied(copied) => {
                files.insert(copied);
            }
            Target::Changed(changed) => {
                let written = format!("]({}", link.url);
                let Some(start) = markdown[range.clone()].rfind(&written) else {
                    bail!("{place}: write it as [text](target)");
                };
                let start = range.start + start + "](".len();
                changes.push(Change {
                    range: start..start + link.url.len(),
                    url: changed,
                });
            }
        }
    }
    let mut markdown = markdown.to_owned();
    // An image may be the text of a link, so the order of the events is not the order in the text.
    changes.sort_by_key(|change| change.range.start);
    for Change { range, url } in changes.into_iter().rev() {
        markdown.replace_range(range, &url);
    }
    Ok(Rewritten { markdown, files })
}

/// A link or a picture of a document.
struct Link<'a> {
    kind: LinkKind,
    url: CowStr<'a>,
}

#[derive(PartialEq, Eq)]
enum LinkKind {
    Anchor,
    Image,
}

/// A URL that is written in place of another.
struct Change {
    range: Range<usize>,
    url: String,
}

/// Where a link leads on the site.
enum Target {
    Unchanged,
    Changed(String),
    Copied(String),
}

fn target(file: &str, link: &Link, targets: &Targets<'_>) -> Result<Target> {
    let is_image = link.kind == LinkKind::Image;
    let link = &*link.url;
    if let Some(page) = page_on_git_host(link, targets) {
        let up = "../".repeat(file.matches('/').count());
        let (page, anchor) = split_anchor(page);
        return Ok(Target::Changed(format!("{up}{}{anchor}", on_site(page))));
    }
    if is_external(link) {
        if is_image {
            bail!("copy the picture to docs/images: a page loads nothing from elsewhere");
        }
        return Ok(Target::Unchanged);
    }
    let (path, anchor) = split_anchor(link);
    if path.is_empty() {
        return Ok(Target::Unchanged);
    }
    let path_in_repository = resolve(folder(file), path)?;
    if targets.pages.contains(path_in_repository.as_str()) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let shown = on_site(name);
        if shown == name {
            return Ok(Target::Unchanged);
        }
        let before = &path[..path.len() - name.len()];
        return Ok(Target::Changed(format!("{before}{shown}{anchor}")));
    }
    let in_docs = path_in_repository.starts_with(&format!("{FOLDER}/"));
    match (targets.kind)(&path_in_repository) {
        Kind::Missing => bail!("there is no {path_in_repository}"),
        Kind::File if is_image || in_docs => Ok(Target::Copied(path_in_repository)),
        kind => {
            let view = if kind == Kind::Folder { "tree" } else { "blob" };
            let Targets {
                repository,
                revision,
                ..
            } = targets;
            Ok(Target::Changed(format!(
                "{repository}/{view}/{revision}/{path_in_repository}{anchor}"
            )))
        }
    }
}

/// A path, and its anchor with the `#`.
fn split_anchor(link: &str) -> (&str, &str) {
    link.split_at(link.find('#').unwrap_or(link.len()))
}

/// The page, with its anchor, that a link to the Git host leads to. A document that is also shown
/// elsewhere, as the chart's is, has such links.
fn page_on_git_host<'a>(link: &'a str, targets: &Targets<'_>) -> Option<&'a str> {
    let path = link
        .strip_prefix(targets.repository)?
        .strip_prefix("/blob/")?;
    let (_, page) = path.split_once('/')?;
    let file = page.split('#').next().unwrap_or_default();
    targets.pages.contains(file).then_some(page)
}

/// Whether a link or the address of a resource leads away from the site.
pub fn is_external(link: &str) -> bool {
    let scheme = link.split(['/', '#', '?']).next().unwrap_or_default();
    link.starts_with("//") || scheme.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(file: &str, markdown: &str) -> Result<Rewritten> {
        let kind = |path: &str| match path {
            "deploy/overlays" => Kind::Folder,
            "deploy/a.yaml" | "docs/images/a.png" | "docs/a.yaml" | "logo.png" => Kind::File,
            _ => Kind::Missing,
        };
        let targets = Targets {
            pages: ["README.md", "docs/README.md", "docs/use.md"].into(),
            repository: "https://git.example/r",
            revision: "v1",
            kind: &kind,
        };
        rewrite(file, markdown, &targets)
    }

    #[test]
    fn links_lead_to_pages_and_else_to_the_git_host() {
        for (file, before, after) in [
            ("README.md", "[a](docs/use.md#x)", "[a](docs/use.md#x)"),
            ("README.md", "[a](docs/README.md#x)", "[a](docs/index.md#x)"),
            ("docs/use.md", "[a](README.md)", "[a](index.md)"),
            (
                "docs/use.md",
                "[a](../README.md#b) [a](#c)",
                "[a](../index.md#b) [a](#c)",
            ),
            (
                "docs/use.md",
                "[a](../deploy/a.yaml)",
                "[a](https://git.example/r/blob/v1/deploy/a.yaml)",
            ),
            (
                "docs/use.md",
                "[a](../deploy/overlays)",
                "[a](https://git.example/r/tree/v1/deploy/overlays)",
            ),
            (
                "docs/use.md",
                "[a](https://b.example/README.md)",
                "[a](https://b.example/README.md)",
            ),
            (
                "docs/use.md",
                "`[a](README.md)`\n\n    [a](README.md)",
                "`[a](README.md)`\n\n    [a](README.md)",
            ),
            (
                "docs/use.md",
                "[![p](images/a.png)](README.md)",
                "[![p](images/a.png)](index.md)",
            ),
        ] {
            assert_eq!(rewritten(file, before).unwrap().markdown, after);
        }
    }

    #[test]
    fn pictures_and_files_of_the_documents_are_copied() {
        let page = rewritten(
            "docs/use.md",
            "![p](images/a.png) [a](a.yaml) ![l](../logo.png)",
        )
        .unwrap();
        assert_eq!(
            page.files,
            ["docs/a.yaml", "docs/images/a.png", "logo.png"]
                .map(str::to_owned)
                .into()
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_refused_with_their_line() {
        for (markdown, reason) in [
            (
                "\n\n[a](gone.md)",
                "docs/use.md:3: the link gone.md: there is no docs/gone.md",
            ),
            ("[a](../../x)", "../../x leads out of the repository"),
            (
                "![p](https://b.example/p.png)",
                "copy the picture to docs/images",
            ),
            ("[a][b]\n\n[b]: ../README.md", "write it as [text](target)"),
        ] {
            let error = format!("{:#}", rewritten("docs/use.md", markdown).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
