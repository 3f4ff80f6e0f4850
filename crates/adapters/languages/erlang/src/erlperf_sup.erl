%% Supervises the services of a node for permanent jobs and monitors. A program can start it without the application.
-module(erlperf_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, all).

init(all) ->
    {ok, {#{strategy => rest_for_one, intensity => 2, period => 60}, [
        #{id => pg, start => {pg, start_link, [erlperf]}},
        #{id => monitor, start => {erlperf_monitor, start_link, []}},
        #{id => jobs, type => supervisor, start => {supervisor, start_link, [{local, erlperf_job_sup}, ?MODULE, jobs]}}
    ]}};
init(jobs) ->
    {ok, {#{strategy => simple_one_for_one, intensity => 30, period => 60},
          [#{id => job, start => {erlperf_job, start_link, []}, restart => temporary}]}}.
