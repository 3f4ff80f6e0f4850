%% The application: what a node needs for permanent jobs and monitors.
-module(speedwell_app).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, init/1]).

start(_, _) ->
    supervisor:start_link({local, erlperf_sup}, ?MODULE, all).

stop(_) ->
    ok.

init(all) ->
    {ok, {#{strategy => rest_for_one, intensity => 2, period => 60}, [
        #{id => pg, start => {pg, start_link, [erlperf]}},
        #{id => monitor, start => {erlperf_monitor, start_link, []}},
        #{id => jobs, type => supervisor, start => {supervisor, start_link, [{local, erlperf_job_sup}, ?MODULE, jobs]}}
    ]}};
init(jobs) ->
    {ok, {#{strategy => simple_one_for_one, intensity => 30, period => 60},
          [#{id => job, start => {erlperf_job, start_link, []}, restart => temporary}]}}.
