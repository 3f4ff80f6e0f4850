%% Caches compiled code in a folder, so that the second process that measures the same code need not load the
%% compiler, which takes more than half as long as starting Erlang. SPEEDWELL_CACHE names the folder; without
%% it nothing is cached.
-module(speedwell_cache).

-export([prepare/3, preload/0]).

%% Like speedwell_code:prepare/2, with a module name derived from the code and from `Job`. Macros in modules on
%% `Paths` may change the meaning of Elixir code, so such code is always compiled.
-spec prepare(speedwell_code:code(), binary(), [file:name()]) -> {ok, speedwell_code:ready()} | {error, map()}.
prepare(Code, Job, Paths) ->
    Folder = os:getenv("SPEEDWELL_CACHE", ""),
    Key = key(Code, Job),
    Module = binary_to_atom(<<"job_", Key/binary>>, utf8),
    case Folder =/= "" andalso is_closed(Code, Paths) of
        false -> speedwell_code:prepare(Code, Module);
        true -> through(filename:join([Folder, "erlang", binary_to_list(Key)]), Code, Module)
    end.

is_closed(#{lang := elixir}, Paths) -> Paths =:= [] andalso os:getenv("ERL_LIBS") =:= false;
is_closed(_, _) -> true.

key(Code, Job) ->
    Parts = [Code, Job, speedwell_machine:version(), os:getenv("ERL_COMPILER_OPTIONS"), code:which('Elixir.Code'),
             [Module:module_info(md5) || Module <- [speedwell_code, speedwell_loop, speedwell_text, speedwell_elixir]]],
    <<Start:12/binary, _/binary>> = erlang:md5(term_to_binary(Parts)),
    << <<(hex(Digit))>> || <<Digit:4>> <= Start >>.

hex(N) when N < 10 -> $0 + N;
hex(N) -> $a + N - 10.

through(File, Code, Module) ->
    case file:read_file(File) of
        {ok, Bytes} ->
            try binary_to_term(Bytes) of
                #{module := Module} = Ready -> {ok, Ready};
                _ -> keep(File, speedwell_code:prepare(Code, Module))
            catch
                error:badarg -> keep(File, speedwell_code:prepare(Code, Module))
            end;
        {error, _} -> keep(File, speedwell_code:prepare(Code, Module))
    end.

%% Written to a temporary file and renamed: several processes may compile the same code. If the folder is not
%% writable, only time is lost.
keep(File, {ok, Ready} = Prepared) ->
    Draft = File ++ "." ++ os:getpid(),
    Kept = [filelib:ensure_dir(File), file:write_file(Draft, term_to_binary(Ready)), file:rename(Draft, File)],
    lists:all(fun(Result) -> Result =:= ok end, Kept) orelse file:delete(Draft),
    Prepared;
keep(_, Error) ->
    Error.

%% Loads the compiler on all schedulers in parallel, which takes two thirds of the time. Modules that this
%% release lacks are skipped.
-spec preload() -> ok.
preload() ->
    _ = code:ensure_modules_loaded([
        compile, erl_lint, erl_scan, erl_parse, erl_expand_records, erl_internal, sofs, ordsets, gb_sets, gb_trees, cerl,
        cerl_trees, cerl_clauses, cerl_sets, core_lib, v3_core, v3_kernel, sys_core_fold, sys_core_alias, sys_core_bsm,
        sys_pre_attributes, beam_core_to_ssa, beam_kernel_to_ssa, beam_ssa, beam_ssa_opt, beam_ssa_type, beam_ssa_bool,
        beam_ssa_bsm, beam_ssa_recv, beam_ssa_share, beam_ssa_dead, beam_ssa_funs, beam_ssa_throw, beam_ssa_bc_size,
        beam_ssa_alias, beam_ssa_destructive_update, beam_ssa_ss, beam_ssa_pre_codegen, beam_ssa_codegen, beam_ssa_lint,
        beam_digraph, beam_call_types, beam_types, beam_bounds, beam_validator, beam_a, beam_block, beam_jump, beam_clean,
        beam_trim, beam_flatten, beam_z, beam_utils, beam_asm, beam_dict, beam_opcodes, erl_bifs, rand]),
    ok.
