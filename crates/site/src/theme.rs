//! What this project changes in mdBook's theme.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mdbook_html::theme::Theme;
use mdbook_renderer::config::HtmlConfig;

use crate::check::PLAYGROUND;

const HEAD: &str = include_str!("../theme/head.hbs");
const STYLE: &str = include_str!("../theme/site.css");
pub const STYLE_NAME: &str = "site.css";

/// Writes a theme into a folder: mdBook's template of a page, with a link to the playground if
/// there is one.
pub fn write(folder: &Path, has_playground: bool) -> Result<()> {
    let theme = folder.join("theme");
    let mut default = HtmlConfig::default();
    default.theme = Some("default".into());
    Theme::copy_theme(&default, folder).context("cannot write mdBook's theme")?;
    let index = fs::read_to_string(folder.join("default/index.hbs"))?;
    fs::create_dir_all(&theme)?;
    fs::write(theme.join("index.hbs"), page(&index, has_playground)?)?;
    fs::write(theme.join("head.hbs"), HEAD)?;
    fs::write(folder.join(STYLE_NAME), STYLE)?;
    Ok(())
}

fn page(template: &str, has_playground: bool) -> Result<String> {
    let mut page = replace(template, "Search this book ...", "Search the documents")?;
    if has_playground {
        let buttons = "<div class=\"right-buttons\">";
        let link = format!(
            "{buttons}\n<a class=\"to-playground\" href=\"{{{{ path_to_root \
             }}}}{PLAYGROUND}/index.html\">Playground</a>"
        );
        page = replace(&page, buttons, &link)?;
    }
    Ok(page)
}

/// Replaces a text that must occur once: another version of mdBook may have another template.
fn replace(template: &str, old: &str, new: &str) -> Result<String> {
    match template.matches(old).count() {
        1 => Ok(template.replace(old, new)),
        count => {
            anyhow::bail!("mdBook's template of a page has {old} {count} times instead of once")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_template_is_refused() {
        let template = "Search this book ...<div class=\"right-buttons\">";
        assert!(
            page(template, true)
                .unwrap()
                .contains("{{ path_to_root }}playground/index.html")
        );
        assert!(!page(template, false).unwrap().contains("playground"));
        let error = page("Search this book ...", true).unwrap_err().to_string();
        assert!(error.ends_with("0 times instead of once"), "{error}");
    }
}
