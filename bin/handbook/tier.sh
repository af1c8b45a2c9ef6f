# Starts three NATS nodes, two ingesters and nginx in the current folder. Run it with: . tier.sh
export NATS_URL=nats://127.0.0.1:4221,127.0.0.1:4222,127.0.0.1:4223
node() {
  cat > "n$1.conf" <<END
server_name: n$1
listen: 127.0.0.1:422$1
jetstream { store_dir: "$PWD/n$1", sync_interval: always }
cluster {
  name: tier, listen: 127.0.0.1:622$1
  routes: [nats://127.0.0.1:6221, nats://127.0.0.1:6222, nats://127.0.0.1:6223]
}
END
  nats-server -c "n$1.conf" -l "n$1.log" & echo $! > "n$1.pid"
}
ingester() {
  assetlog serve --port "300$1" --data "i$1" --forward-to "$NATS_URL/ASSETLOG" --ack upstream >> "i$1.log" 2>&1 &
  echo $! > "i$1.pid"
}
cat > nginx.conf <<'END'
daemon off;
pid nginx.pid;
error_log nginx.log;
events {}
http {
  access_log off;
  upstream tier {
    server 127.0.0.1:3001 max_fails=1 fail_timeout=5s;
    server 127.0.0.1:3002 max_fails=1 fail_timeout=5s;
    keepalive 64;
  }
  server {
    listen 127.0.0.1:3000;
    location / {
      proxy_pass http://tier;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_next_upstream error http_503;
    }
  }
}
END
for n in 1 2 3; do node $n; done
until # the nodes have elected a leader
  nats stream add ASSETLOG --subjects 'assetlog.>' --storage file --replicas 3 --allow-batch --defaults
do sleep 1; done
for i in 1 2; do ingester $i; done
nginx -p "$PWD" -e nginx.log -c nginx.conf &
until curl -fs 127.0.0.1:3000/readyz; do sleep 1; done
