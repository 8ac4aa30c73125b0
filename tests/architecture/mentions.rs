//! What a Rust file mentions: the paths that it names, the items that it defines, the methods that it calls.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// A path as it is written, such as `super::store::Store`.
pub(crate) type Path = Vec<String>;

/// A name that a `use` brings into a module.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The name; `*` for everything that the path holds.
    pub(crate) name: String,
    pub(crate) path: Path,
    /// Whether other modules see it.
    pub(crate) is_public: bool,
}

/// What one module mentions, apart from its child modules.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pub(crate) items: Vec<String>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) paths: Vec<Path>,
    pub(crate) methods: Vec<String>,
    pub(crate) is_async: bool,
    /// Child modules that have a file of their own.
    pub(crate) files: Vec<String>,
    /// Child modules in the same file.
    pub(crate) inline: Vec<(String, Mentions)>,
}

impl Mentions {
    pub(crate) fn read(items: &[Item]) -> Self {
        let mut mentions = Self::default();
        for item in items {
            mentions.visit_item(item);
        }
        mentions
    }

    fn import(&mut self, tree: &UseTree, mut path: Path, is_public: bool) {
        let (name, last) = match tree {
            UseTree::Path(below) => {
                path.push(below.ident.to_string());
                return self.import(&below.tree, path, is_public);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path.clone(), is_public));
            }
            UseTree::Name(name) => (name.ident.to_string(), Some(name.ident.to_string())),
            UseTree::Rename(rename) => (rename.rename.to_string(), Some(rename.ident.to_string())),
            UseTree::Glob(_) => ("*".to_owned(), None),
        };
        // `use a::{self}` names `a` itself.
        let name = if name == "self" { path.last().unwrap().clone() } else { name };
        path.extend(last.filter(|last| last != "self" || path.is_empty()));
        self.bindings.push(Binding { name, path, is_public });
    }

    /// Reads the arguments of a macro. They are not parsed, so each identifier counts as a path, together with those that
    /// follow it after `::`.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut punctuation = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if punctuation != "::" {
                        self.end_path(&mut path);
                    }
                    self.is_async |= ident == "async" || ident == "await";
                    match punctuation.as_str() {
                        "." => self.methods.push(ident.to_string()),
                        _ => path.push(ident.to_string()),
                    }
                    punctuation.clear();
                }
                TokenTree::Punct(punct) => punctuation.push(punct.as_char()),
                TokenTree::Group(group) => {
                    self.end_path(&mut path);
                    punctuation.clear();
                    if group.delimiter() == Delimiter::None || !group.stream().is_empty() {
                        self.read_tokens(group.stream());
                    }
                }
                TokenTree::Literal(_) => {
                    self.end_path(&mut path);
                    punctuation.clear();
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Path) {
        if !path.is_empty() {
            self.paths.push(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => {
                if !is_test(&item.attrs) {
                    let is_public = !matches!(item.vis, Visibility::Inherited);
                    self.import(&item.tree, Path::new(), is_public);
                }
                return;
            }
            Item::Mod(item) => {
                assert!(
                    !item.attrs.iter().any(|attribute| attribute.path().is_ident("path")),
                    "this test does not follow #[path]"
                );
                if !is_test(&item.attrs) {
                    let name = item.ident.to_string();
                    match &item.content {
                        Some((_, items)) => self.inline.push((name, Self::read(items))),
                        None => self.files.push(name),
                    }
                }
                return;
            }
            // What it declares is defined outside of the crate.
            Item::ForeignMod(item) => (&item.attrs, None),
            _ => panic!("an item that this test does not know"),
        };
        if !is_test(attributes) {
            self.items.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.methods.push(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.is_async |= signature.asyncness.is_some();
        visit::visit_signature(self, signature);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.is_async |= closure.asyncness.is_some();
        visit::visit_expr_closure(self, closure);
    }

    fn visit_expr_async(&mut self, block: &'ast syn::ExprAsync) {
        self.is_async = true;
        visit::visit_expr_async(self, block);
    }

    fn visit_expr_await(&mut self, expression: &'ast syn::ExprAwait) {
        self.is_async = true;
        visit::visit_expr_await(self, expression);
    }

    // The paths in `pub(super)` and `#[serde(…)]` import nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Whether an item is compiled for tests only: `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    })
}

/// Whether a name is `outer` or a path in it: `std::time::Instant::now` is within `std::time`.
pub(crate) fn is_within(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
