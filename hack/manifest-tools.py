#!/usr/bin/env python3
"""Command lines of kustomize and helm over their engines as C libraries, for a machine that has neither program.

Only the commands and options that the tests use are here, with the meaning that the real programs give them.
hack/manifest-tools.sh installs this file in a folder next to the libraries, under the names `kustomize` and `helm`.
"""

import argparse
import ctypes
import json
import os
import sys

LIBRARIES = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class Failure(Exception):
    """An error that the engine reports."""


def merge(values, later):
    """Merges values as Helm does: maps by key, everything else is replaced."""
    if not isinstance(values, dict) or not isinstance(later, dict):
        return later
    return {**values, **{key: merge(values.get(key), value) for key, value in later.items()}}


class Kustomize:
    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(LIBRARIES, "libpykustomize.so"))
        self.library.pykustomize_build.argtypes = [
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
        ]
        self.library.pykustomize_last_error.restype = ctypes.c_char_p
        self.library.pykustomize_free.argtypes = [ctypes.c_void_p]

    def build(self, folder):
        result = ctypes.c_void_p()
        # The real program's defaults.
        options = {"load_restrictions": 0, "reorder": "unspecified"}
        if self.library.pykustomize_build(
            folder.encode(), json.dumps(options).encode(), ctypes.byref(result)
        ):
            raise Failure((self.library.pykustomize_last_error() or b"no reason given").decode())
        text = ctypes.string_at(result.value).decode()
        self.library.pykustomize_free(result)
        return text


class Helm:
    NO_HANDLE = ctypes.c_uint64(0)

    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(LIBRARIES, "libhelm_c.so"))
        self.library.helm_free_string.argtypes = [ctypes.c_void_p]
        self.library.helm_free_string.restype = None

    def call(self, name, *arguments, result):
        """Calls a function. Its last parameters point to the result, if it has one, and to the error message."""
        error = ctypes.c_void_p()
        arguments = [value.encode() if isinstance(value, str) else value for value in arguments]
        places = [ctypes.byref(result)] if result is not None else []
        code = getattr(self.library, name)(*arguments, *places, ctypes.byref(error))
        if code:
            raise Failure(self.take(error) or f"{name} failed with code {code}")

    def take(self, text):
        if not text.value:
            return ""
        copied = ctypes.string_at(text.value).decode()
        self.library.helm_free_string(text)
        return copied

    def handle(self, name, *arguments):
        result = ctypes.c_uint64()
        self.call(name, *arguments, result=result)
        return result

    def text(self, name, *arguments):
        result = ctypes.c_void_p()
        self.call(name, *arguments, result=result)
        return self.take(result)

    def values(self, files):
        """Reads files of values as JSON. The values of a later file take precedence."""
        merged = {}
        for file in files or []:
            with open(file, encoding="utf-8") as stream:
                merged = merge(merged, json.loads(self.text("helm_values_from_yaml", stream.read())))
        return json.dumps(merged)

    def template(self, options):
        """Renders what an installation would apply, in the order of the template files."""
        chart = self.handle("helm_chart_load", options.chart)
        values = self.values(options.values)
        self.call("helm_schema_validate", chart, values, result=None)
        how = {"name": options.name, "namespace": options.namespace, "is_install": True}
        rendered = json.loads(self.text("helm_render", chart, values, json.dumps(how)))
        manifests = []
        for name, text in sorted(rendered.items()):
            if text.strip() and not name.endswith(("NOTES.txt", ".tpl")):
                manifests.append(f"---\n# Source: {name}\n{text.strip()}\n")
        return "".join(manifests)

    def lint(self, options):
        how = {"strict": options.strict, "namespace": options.namespace}
        report = json.loads(
            self.text("helm_lint_run_opts", options.chart, self.values(options.values), json.dumps(how))
        )
        severities = ["UNKNOWN", "INFO", "WARNING", "ERROR"]
        lines = [
            f"[{severities[message['severity']]}] {message['path']}: {message['error']}"
            for message in report["messages"] or []
        ]
        text = "".join(f"{line}\n" for line in lines)
        if report["errors"]:
            raise Failure("1 chart(s) linted, 1 chart(s) failed\n" + text)
        return text + "1 chart(s) linted, 0 chart(s) failed\n"

    def cluster(self, options):
        how = {"namespace": options.namespace}
        if options.kubeconfig:
            how["kubeconfig_path"] = options.kubeconfig
        return self.handle("helm_config_new", json.dumps(how))

    def install(self, options):
        return self.release("helm_install", options, {"create_namespace": options.create_namespace})

    def upgrade(self, options):
        return self.release("helm_upgrade", options, {})

    def rollback(self, options):
        how = {"version": options.revision}
        self.call("helm_rollback", self.cluster(options), options.name, json.dumps(how), result=None)
        return "Rollback was a success! Happy Helming!\n"

    def release(self, function, options, how):
        how["namespace"] = options.namespace
        # By reference instead of a loaded chart, like the real program.
        release = self.text(
            function,
            self.cluster(options),
            self.NO_HANDLE,
            self.NO_HANDLE,
            options.chart,
            options.name,
            self.values(options.values),
            json.dumps(how),
        )
        release = json.loads(release)
        return f"NAME: {release['name']}\nSTATUS: {release['status']}\nNOTES:\n{release['notes']}\n"

    def pull(self, options):
        how = {"version": options.version, "dest_dir": options.destination, "plain_http": options.plain_http}
        self.text("helm_pull", self.NO_HANDLE, options.chart, json.dumps(how))
        return ""

    def uninstall(self, options):
        done = json.loads(self.text("helm_uninstall", self.cluster(options), options.name, "{}"))
        return f"{done.get('info') or ''}\nrelease \"{options.name}\" uninstalled\n".lstrip()


def kustomize(arguments):
    parser = argparse.ArgumentParser(prog="kustomize")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("folder")
    return Kustomize().build(parser.parse_args(arguments).folder)


def helm(arguments):
    parser = argparse.ArgumentParser(prog="helm")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--namespace", "-n", default="default")
    values = argparse.ArgumentParser(add_help=False)
    values.add_argument("--values", "-f", action="append")
    cluster = argparse.ArgumentParser(add_help=False)
    cluster.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"))
    commands = parser.add_subparsers(dest="command", required=True)
    for name, parents in {
        "template": [common, values],
        "lint": [common, values],
        "install": [common, values, cluster],
        "upgrade": [common, values, cluster],
        "rollback": [common, cluster],
        "uninstall": [common, cluster],
        "pull": [],
    }.items():
        command = commands.add_parser(name, parents=parents)
        if name not in ("lint", "pull"):
            command.add_argument("name")
        if name == "rollback":
            command.add_argument("revision", type=int, nargs="?", default=0)
        elif name != "uninstall":
            command.add_argument("chart")
        if name == "lint":
            command.add_argument("--strict", action="store_true")
        if name == "pull":
            command.add_argument("--version")
            command.add_argument("--destination", "-d", default=".")
            command.add_argument("--plain-http", action="store_true")
        if name == "install":
            command.add_argument("--create-namespace", action="store_true")
    options = parser.parse_args(arguments)
    return getattr(Helm(), options.command)(options)


def main():
    program = os.path.basename(sys.argv[0])
    try:
        sys.stdout.write({"kustomize": kustomize, "helm": helm}[program](sys.argv[1:]))
    except (Failure, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
