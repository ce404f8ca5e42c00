# The reference server on port 11300; with arguments, the command beanstalk-conformance.
FROM python:3.13-slim AS build
ARG VERSION=0.0
WORKDIR /source
COPY . .
RUN python -m venv /opt/beanstalk \
    && SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" /opt/beanstalk/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/beanstalk /opt/beanstalk
RUN useradd --create-home --uid 1000 beanstalk
ENV PATH="/opt/beanstalk/bin:$PATH"
USER 1000
# The suite writes its reports here.
WORKDIR /home/beanstalk
EXPOSE 11300
ENTRYPOINT ["beanstalk-conformance"]
CMD ["serve", "--host", "0.0.0.0", "--port", "11300"]
