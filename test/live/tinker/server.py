"""Serves a model by SkyRL's Tinker API with its JAX backend, from a plain virtual environment.

The arguments are those of `python -m skyrl.tinker.api`. Two things are put right first: SkyRL starts its engine as a
child through `uv run`, which needs a checkout of its sources, so the child is started by this interpreter; and its
types are declared with typing.TypedDict, which pydantic refuses before Python 3.12.
"""

import argparse
import sys
import typing

import typing_extensions

typing.TypedDict = typing_extensions.TypedDict


def serve():
    import uvicorn
    from skyrl.tinker import api
    from skyrl.tinker.config import EngineConfig, add_model, config_to_argv
    from skyrl.utils.log import get_uvicorn_log_config

    def engine_command(_parent, config):
        return [sys.executable, __file__, "engine", *config_to_argv(config)]

    api._build_uv_run_cmd_engine = engine_command
    parser = argparse.ArgumentParser()
    add_model(parser, EngineConfig)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    args = vars(parser.parse_args())
    api.app.state.engine_config = EngineConfig.model_validate(
        {name: value for name, value in args.items() if name in EngineConfig.model_fields}
    )
    uvicorn.run(api.app, host=args["host"], port=args["port"], log_config=get_uvicorn_log_config())


if sys.argv[1:2] == ["engine"]:
    del sys.argv[1]
    from skyrl.tinker.engine import main

    main()
else:
    serve()
