package main

import (
	"context"
	"fmt"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

// typed speaks protobuf, as Go's controllers do.
func typed(ctx context.Context, config *rest.Config, namespace string) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	must(err)
	maps := client.CoreV1().ConfigMaps(namespace)

	labels := map[string]string{"story": "typed"}
	list, err := maps.List(ctx, meta.ListOptions{})
	must(err)
	events, err := maps.Watch(ctx, meta.ListOptions{LabelSelector: "story=typed", ResourceVersion: list.ResourceVersion})
	must(err)
	made, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "a", Labels: labels}, Data: map[string]string{"k": "v"}}, meta.CreateOptions{})
	must(err)
	say("created %s with %v, managed by %s", made.Name, made.Data, made.ManagedFields[0].Manager)
	_, err = maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "a"}}, meta.CreateOptions{})
	say("again: already exists %v", errors.IsAlreadyExists(err))
	_, err = maps.Get(ctx, "none", meta.GetOptions{})
	say("another: not found %v", errors.IsNotFound(err))

	stale := made.DeepCopy()
	made.Data["k"] = "w"
	made, err = maps.Update(ctx, made, meta.UpdateOptions{})
	must(err)
	_, err = maps.Update(ctx, stale, meta.UpdateOptions{})
	say("a stale update: conflict %v", errors.IsConflict(err))
	must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "a", meta.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["r"] = "retried"
		_, err = maps.Update(ctx, current, meta.UpdateOptions{})
		return err
	}))
	patched, err := maps.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"k":null,"s":"strategic"}}`), meta.PatchOptions{})
	must(err)
	say("patched %v", patched.Data)
	applied, err := maps.Apply(ctx, coreapply.ConfigMap("a", namespace).WithData(map[string]string{"x": "applied"}), meta.ApplyOptions{FieldManager: "applier"})
	must(err)
	say("applied %v", applied.Data)
	_, err = maps.Apply(ctx, coreapply.ConfigMap("a", namespace).WithData(map[string]string{"x": "mine"}), meta.ApplyOptions{FieldManager: "other"})
	say("another's field: conflict %v", errors.IsConflict(err))

	for number := range 7 {
		_, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("page-%d", number), Labels: map[string]string{"page": "yes"}}}, meta.CreateOptions{})
		must(err)
	}
	pages := pager.New(pager.SimplePageFunc(func(options meta.ListOptions) (runtime.Object, error) {
		list, err := maps.List(ctx, options)
		if err == nil {
			say("a page of %d", len(list.Items))
		}
		return list, err
	}))
	pages.PageSize = 3
	must(pages.EachListItem(ctx, meta.ListOptions{LabelSelector: "page=yes"}, func(object runtime.Object) error {
		say("item %s", object.(*core.ConfigMap).Name)
		return nil
	}))
	must(maps.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "page=yes"}))

	wrong := types.UID("wrong")
	err = maps.Delete(ctx, "a", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &wrong}})
	say("another uid: conflict %v", errors.IsConflict(err))
	must(maps.Delete(ctx, "a", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &made.UID}}))
	for range 6 {
		event := <-events.ResultChan()
		say("event %s %v", event.Type, event.Object.(*core.ConfigMap).Data)
	}
	events.Stop()

	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "robot"}}, meta.CreateOptions{})
	must(err)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", &authentication.TokenRequest{}, meta.CreateOptions{})
	must(err)
	robot, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, CAFile: config.CAFile, Insecure: config.Insecure}})
	must(err)
	self, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authentication.SelfSubjectReview{}, meta.CreateOptions{})
	must(err)
	say("the token is of %s", self.Status.UserInfo.Username)
	review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "pods"}}}
	answer, err := robot.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, meta.CreateOptions{})
	must(err)
	say("it may list pods: %v", answer.Status.Allowed)
	_, err = robot.CoreV1().Pods(namespace).List(ctx, meta.ListOptions{})
	say("it lists pods: forbidden %v", errors.IsForbidden(err))

	groups, err := client.Discovery().ServerPreferredResources()
	must(err)
	say("discovered pods %v", len(groups) > 10)
}
