//! Measures what one evaluation costs the guest: instructions and memory. Unlike time, they do not
//! depend on what else the machine does.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use pps_e2e::kubewarden::stand_in::HostCalls;
use wasmtime_provider::wasmtime::{Caller, Config, Engine, Extern, Linker, Memory, Module, Store};

/// A compiled policy whose evaluations are measured.
pub(crate) struct Meter {
    module: Module,
    linker: Linker<Exchange>,
}

/// What one evaluation cost.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The guest's answer; `None` if it used up its instructions, trapped or returned an error.
    pub(crate) answer: Option<Vec<u8>>,
    /// Instructions of Wasm, about one for each.
    pub(crate) instructions: u64,
    /// Size of the guest's memory at the end, in bytes. It never shrinks.
    pub(crate) memory: u64,
}

/// What a guest and its host have to say to each other.
struct Exchange {
    request: Vec<u8>,
    response: Option<Vec<u8>>,
    host: Arc<dyn HostCalls>,
    host_answer: Result<Vec<u8>, String>,
}

impl Exchange {
    /// The host's answer or its error, whichever there is.
    fn last_answer(&self) -> &[u8] {
        self.host_answer
            .as_deref()
            .unwrap_or_else(|error| error.as_bytes())
    }
}

impl Meter {
    /// Compiles the policy in a file.
    pub(crate) fn load_file(path: &Path) -> Result<Self> {
        let mut config = Config::new();
        config.consume_fuel(true);
        let engine = Engine::new(&config).map_err(|error| anyhow!("{error:#}"))?;
        let module = Module::from_file(&engine, path)
            .map_err(|error| anyhow!("{error:#}"))
            .with_context(|| path.display().to_string())?;
        let mut linker = Linker::new(&engine);
        define_protocol(&mut linker).map_err(|error| anyhow!("{error:#}"))?;
        Ok(Self { module, linker })
    }

    /// Evaluates a request with at most so many instructions.
    pub(crate) fn validate(
        &self,
        payload: &[u8],
        host: Arc<dyn HostCalls>,
        budget: u64,
    ) -> Result<Measurement> {
        const OPERATION: &str = "validate";
        let exchange = Exchange {
            request: payload.to_vec(),
            response: None,
            host,
            host_answer: Ok(Vec::new()),
        };
        let mut store = Store::new(self.module.engine(), exchange);
        let failed = |error| anyhow!("{error:#}");
        store.set_fuel(budget).map_err(failed)?;
        let instance = self
            .linker
            .instantiate(&mut store, &self.module)
            .map_err(failed)?;
        let init = instance
            .get_typed_func::<(), ()>(&mut store, "wapc_init")
            .map_err(failed)?;
        let call = instance
            .get_typed_func::<(u32, u32), u32>(&mut store, "__guest_call")
            .map_err(failed)?;
        let lengths = (
            u32::try_from(OPERATION.len())?,
            u32::try_from(payload.len())?,
        );
        let result = init
            .call(&mut store, ())
            .and_then(|()| call.call(&mut store, lengths));
        let memory = instance
            .get_memory(&mut store, "memory")
            .context("the policy exports no memory")?;
        Ok(Measurement {
            answer: if matches!(result, Ok(1)) {
                store.data_mut().response.take()
            } else {
                None
            },
            instructions: budget - store.get_fuel().map_err(failed)?,
            memory: memory.data_size(&store) as u64,
        })
    }
}

fn memory_of(
    caller: &mut Caller<'_, Exchange>,
) -> Result<Memory, wasmtime_provider::wasmtime::Error> {
    caller
        .get_export("memory")
        .and_then(Extern::into_memory)
        .ok_or_else(|| wasmtime_provider::wasmtime::Error::msg("the policy exports no memory"))
}

fn read(
    caller: &mut Caller<'_, Exchange>,
    from: u32,
    length: u32,
) -> Result<Vec<u8>, wasmtime_provider::wasmtime::Error> {
    let memory = memory_of(caller)?;
    let mut bytes = vec![0; length as usize];
    memory.read(caller, from as usize, &mut bytes)?;
    Ok(bytes)
}

fn write(
    caller: &mut Caller<'_, Exchange>,
    to: u32,
    bytes: &[u8],
) -> Result<(), wasmtime_provider::wasmtime::Error> {
    let memory = memory_of(caller)?;
    Ok(memory.write(caller, to as usize, bytes)?)
}

/// The functions of waPC that a guest imports.
fn define_protocol(
    linker: &mut Linker<Exchange>,
) -> Result<(), wasmtime_provider::wasmtime::Error> {
    const WAPC: &str = "wapc";
    linker.func_wrap(
        WAPC,
        "__guest_request",
        |mut caller: Caller<'_, Exchange>, operation: u32, message: u32| {
            let request = std::mem::take(&mut caller.data_mut().request);
            write(&mut caller, operation, b"validate")?;
            write(&mut caller, message, &request)
        },
    )?;
    linker.func_wrap(
        WAPC,
        "__guest_response",
        |mut caller: Caller<'_, Exchange>, from: u32, length: u32| {
            let response = read(&mut caller, from, length)?;
            caller.data_mut().response = Some(response);
            Ok(())
        },
    )?;
    linker.func_wrap(
        WAPC,
        "__guest_error",
        |_: Caller<'_, Exchange>, _: u32, _: u32| {},
    )?;
    linker.func_wrap(
        WAPC,
        "__console_log",
        |_: Caller<'_, Exchange>, _: u32, _: u32| {},
    )?;
    linker.func_wrap(
        WAPC,
        "__host_call",
        |mut caller: Caller<'_, Exchange>,
         _: u32,
         _: u32,
         namespace: u32,
         namespace_length: u32,
         operation: u32,
         operation_length: u32,
         payload: u32,
         payload_length: u32| {
            let namespace = read(&mut caller, namespace, namespace_length)?;
            let operation = read(&mut caller, operation, operation_length)?;
            let payload = read(&mut caller, payload, payload_length)?;
            let [namespace, operation] =
                [namespace, operation].map(|text| String::from_utf8_lossy(&text).into_owned());
            let answer = caller.data().host.call(&namespace, &operation, &payload);
            let is_ok = answer.is_ok();
            caller.data_mut().host_answer = answer;
            Ok(u32::from(is_ok))
        },
    )?;
    for name in ["__host_response_len", "__host_error_len"] {
        linker.func_wrap(WAPC, name, |caller: Caller<'_, Exchange>| {
            u32::try_from(caller.data().last_answer().len()).unwrap_or(u32::MAX)
        })?;
    }
    for name in ["__host_response", "__host_error"] {
        linker.func_wrap(WAPC, name, |mut caller: Caller<'_, Exchange>, to: u32| {
            let answer = caller.data().last_answer().to_vec();
            write(&mut caller, to, &answer)
        })?;
    }
    Ok(())
}
