"""A program that stands for the inference server, and answers at once."""

import sys
import textwrap

SERVER = """\
    #!{python}
    # Stands for `python -m gunicorn ...`: answers every image with the version of its model.
    import json, os, pathlib, sys
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    host, port = sys.argv[sys.argv.index("--bind") + 1].split(":")
    model = pathlib.Path(os.environ["AZUREML_MODEL_DIR"])
    graph = next(model.rglob("saved_model.pb")).read_bytes()[:50].decode(errors="replace")
    assert pathlib.Path(os.environ["AZUREML_ENTRY_SCRIPT"]).read_text().count("def init")
    assert pathlib.Path(sys.argv[sys.argv.index("--log-config-json") + 1]).is_file()
    if graph == "broken":
        sys.exit("the model cannot be loaded")

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status, document):
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Model-Version", os.environ["SCORE_MODEL_VERSION"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.answer(200, {{}})

        def do_POST(self):
            image = self.rfile.read(int(self.headers["Content-Length"]))
            if not image:
                return self.answer(400, {{"error": "the image: is empty"}})
            name = graph + " " + os.environ["SCORE_MODEL_VERSION"]
            best = {{"class_id": image[0] % 10, "class_name": name, "probability": 0.9}}
            self.answer(200, {{"classes": [best]}})

        def log_message(self, *_):
            'Prints no line for a request.'

    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


def write_server(folder):
    """Write the program that stands for the Python of the servers."""
    program = folder / "server"
    program.write_text(textwrap.dedent(SERVER).format(python=sys.executable))
    program.chmod(0o755)
    return program
