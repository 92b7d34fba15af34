# The package built as a wheel, installed at the pinned versions: every command, Spark with a Java of its own, pictures.
#   docker build -t overlace .
#   docker run --rm -v "$PWD:/data" overlace demo
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md CITATION.cff LICENSE ./
COPY overlace ./overlace
RUN python -m pip wheel --no-deps --wheel-dir /dist .

FROM python:3.12-slim
COPY --from=build /dist /dist
COPY requirements.txt requirements-java.txt /dist/
RUN python -m pip install --no-cache-dir -c /dist/requirements.txt -c /dist/requirements-java.txt "$(ls /dist/*.whl)[report,java]" && rm -r /dist
RUN useradd --create-home overlace && install -d -o overlace /data
USER overlace
WORKDIR /data
ENTRYPOINT ["overlace"]
CMD ["--help"]
