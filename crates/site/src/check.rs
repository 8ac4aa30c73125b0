//! Whether the finished site is whole: each link has a target, and no page loads anything from elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};

use crate::contents::{folder, resolve};
use crate::links::is_external;

/// The folder of the playground, whose fragments are scenarios and not anchors.
pub const PLAYGROUND: &str = "playground";

/// What is wrong with a site, one line each.
pub fn problems(site: &Path) -> Result<Vec<String>> {
    let mut files = BTreeSet::new();
    list(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    let mut problems = Vec::new();
    for file in &files {
        let read = || fs::read_to_string(site.join(file)).with_context(|| format!("cannot read {file}"));
        if has_extension(file, "html") {
            pages.insert(file.as_str(), page(&read()?));
        } else if has_extension(file, "css") {
            problems.extend(of_css(&read()?).map(|problem| format!("{file}: {problem}")));
        }
    }
    for (file, page) in &pages {
        let in_page = page.resources.iter().map(|address| of_resource(file, address, &files));
        let of_links = page.links.iter().map(|link| of_link(file, link, &pages, &files));
        problems.extend(in_page.chain(of_links).flatten().map(|problem| format!("{file}: {problem}")));
    }
    Ok(problems)
}

fn list(site: &Path, below: &str, files: &mut BTreeSet<String>) -> Result<()> {
    let folder = site.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().with_context(|| format!("{} is not UTF-8", name.display()))?;
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            list(site, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

/// Whether a file's name has this extension.
pub(crate) fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|found| found == extension)
}

/// What a page has and wants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    anchors: BTreeSet<String>,
    /// Where its links lead.
    links: Vec<String>,
    /// What the browser loads to show it.
    resources: Vec<String>,
}

#[derive(Default)]
struct Reader {
    page: RefCell<Page>,
    style: RefCell<String>,
    in_style: Cell<bool>,
}

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(text) if self.in_style.get() => self.style.borrow_mut().push_str(&text),
            Token::TagToken(tag) => {
                let name = &*tag.name;
                self.in_style.set(tag.kind == TagKind::StartTag && name == "style");
                if tag.kind == TagKind::EndTag {
                    return TokenSinkResult::Continue;
                }
                let mut page = self.page.borrow_mut();
                for attribute in &tag.attrs {
                    let value = attribute.value.to_string();
                    match (name, &*attribute.name.local) {
                        (_, "id") => {
                            page.anchors.insert(value);
                        }
                        ("a" | "area", "href") => page.links.push(value),
                        (_, "href" | "src" | "poster" | "data" | "srcset" | "background") => {
                            page.resources.push(value);
                        }
                        (_, "style") => self.style.borrow_mut().push_str(&value),
                        _ => {}
                    }
                }
                match name {
                    "script" => return TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" => return TokenSinkResult::RawData(RawKind::Rawtext),
                    "title" | "textarea" => return TokenSinkResult::RawData(RawKind::Rcdata),
                    _ => {}
                }
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn page(html: &str) -> Page {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Reader::default(), html5ever::tokenizer::TokenizerOpts::default());
    // Without a tree builder, nothing asks the tokenizer to stop at a script.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let Reader { page, style, .. } = tokenizer.sink;
    let mut page = page.into_inner();
    page.resources.extend(addresses(&style.into_inner()).map(str::to_owned));
    page
}

/// The addresses that a style sheet loads.
fn addresses(css: &str) -> impl Iterator<Item = &str> {
    let urls = css.split("url(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(address, _)| address);
    let imports =
        css.split("@import").skip(1).filter_map(|rest| rest.split_once(';')).map(|(address, _)| address);
    urls.chain(imports.filter(|address| !address.contains("url(")))
        .map(|address| address.trim().trim_matches(['"', '\'']))
}

fn of_css(css: &str) -> impl Iterator<Item = String> {
    addresses(css)
        .filter(|address| is_external(address) && !address.starts_with("data:"))
        .map(|address| format!("the style sheet loads {address}"))
}

fn of_resource(file: &str, address: &str, files: &BTreeSet<String>) -> Option<String> {
    if address.starts_with("data:") {
        return None;
    }
    if is_external(address) {
        return Some(format!("the page loads {address}"));
    }
    let path = address.split(['#', '?']).next().unwrap_or_default();
    let there = path.is_empty() || resolve(folder(file), path).is_ok_and(|path| files.contains(&path));
    (!there).then(|| format!("the page loads {address}, which is missing"))
}

fn of_link(file: &str, link: &str, pages: &BTreeMap<&str, Page>, files: &BTreeSet<String>) -> Option<String> {
    if is_external(link) {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
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
    let known = pages.get(target.as_str()).is_some_and(|page| page.anchors.contains(anchor));
    (!known).then(|| format!("the link {link}: {target} has no such anchor"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
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
    fn a_whole_site_has_no_problem() {
        let index = r#"<a href="docs/a.html#b">x</a><a href="docs/">x</a><a href="https://e.example/x">x</a>
            <a href="playground/#eJwr">x</a><script src="a.js">document.write('<img src="https://e.example/x">')</script>"#;
        let found = problems_of(
            "whole",
            &[
                ("index.html", index),
                ("a.js", ""),
                (
                    "docs/a.html",
                    r##"<h1 id="b">B</h1><a href="../index.html">x</a><a href="#b">x</a><a href="#">x</a>"##,
                ),
                (
                    "docs/index.html",
                    r#"<link rel="stylesheet" href="a.css"><img src="data:image/png;base64,AA">"#,
                ),
                (
                    "docs/a.css",
                    "a { background: url('data:image/png;base64,AA') } b { src: url(\"x.woff2\") }",
                ),
                ("playground/index.html", ""),
            ],
        );
        assert_eq!(found, Vec::<String>::new());
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

    #[test]
    fn what_is_loaded_from_elsewhere_is_reported() {
        let index = r#"<script src="https://e.example/a.js"></script><img src="//e.example/a.png">
            <link rel="icon" href="gone.png"><style>@import "https://e.example/a.css";</style>
            <p style="background: url(http://e.example/b.png)">"#;
        let css = "@font-face { src: url(https://e.example/a.woff2) }";
        assert_eq!(
            problems_of("resources", &[("index.html", index), ("a.css", css)]),
            [
                "a.css: the style sheet loads https://e.example/a.woff2",
                "index.html: the page loads https://e.example/a.js",
                "index.html: the page loads //e.example/a.png",
                "index.html: the page loads gone.png, which is missing",
                "index.html: the page loads http://e.example/b.png",
                "index.html: the page loads https://e.example/a.css",
            ]
        );
    }
}
